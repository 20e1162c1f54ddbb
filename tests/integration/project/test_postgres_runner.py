"""The embedded server's runner against real servers in folders of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from project.postgres import server as postgres
from project.postgres.account import ServerAccount, server_account, usable_install
from project.postgres.paths import install_dir, socket_dir
from rag.core.errors import ConfigurationError

pytestmark = pytest.mark.slow

BASE_DIR = Path(__file__).resolve().parents[3]
FAST = {"fsync": "off", "shared_buffers": "16MB"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the superuser")
STARTER = """
import sys
from pathlib import Path
from project.postgres import server as postgres
from project.postgres.paths import install_dir
dsn = postgres.start_postgres(install_dir(), Path(sys.argv[1]), {"fsync": "off", "shared_buffers": "16MB"})
postgres.create_database(dsn, "citable")
print(dsn)
"""


@contextlib.contextmanager
def folder_of_clusters() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="citable-runner-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    for data in {path.parent for path in folder.rglob("pgdata")}:
        postgres.stop_postgres(install_dir(), data)
        if socket_dir(data).parent == Path("/tmp"):
            shutil.rmtree(socket_dir(data))
    shutil.rmtree(folder)


@pytest.fixture
def root() -> Iterator[Path]:
    with folder_of_clusters() as folder:
        yield folder


@pytest.fixture
def fresh(root: Path) -> Path:
    return root / "postgres"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """Where tests work in turn: to make a cluster takes most of a second of a processor."""
    with folder_of_clusters() as folder:
        yield folder / "postgres"


@pytest.fixture
def data(cluster: Path) -> Iterator[Path]:
    yield cluster
    socket_dir(cluster).chmod(0o700)
    stop(cluster)
    assert servers_of(cluster) == []


def start(data: Path, **options: str) -> str:
    return postgres.start_postgres(install_dir(), data, FAST | options)


def stop(data: Path) -> None:
    postgres.stop_postgres(install_dir(), data)


def ask(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[call-overload]
        return row[0] if row else None


def tell(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[call-overload]


def postmaster(data: Path) -> int:
    return int((data / "pgdata" / "postmaster.pid").read_text().split()[0])


def kill(data: Path) -> None:
    """Kill the postmaster and wait until its sessions have noticed."""
    pid = postmaster(data)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while servers_of(data) and time.monotonic() < deadline:
        time.sleep(0.05)


def servers_of(data: Path) -> list[int]:
    """Return the postmasters that work in this cluster: postgres whose parent is not one."""
    found: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").resolve() == data.resolve() / "pgdata":
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                found[int(process.name)] = int(fields[1])
    return [pid for pid, parent in found.items() if parent not in found]


def race(data: Path, n_starters: int = 4) -> list[str]:
    command = [sys.executable, "-c", STARTER, str(data)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    starters = [
        subprocess.Popen(command, cwd=BASE_DIR, **pipes)  # type: ignore[call-overload]
        for _ in range(n_starters)
    ]
    answers = []
    for starter in starters:
        output, errors = starter.communicate(timeout=50)
        assert starter.returncode == 0, errors
        answers.append(output.strip())
    return answers


def test_a_new_folder_becomes_a_running_server(fresh: Path) -> None:
    dsn = start(fresh, work_mem="7MB")
    assert ask(dsn, "SHOW server_encoding") == "UTF8"
    assert ask(dsn, "SHOW data_checksums") == "on"
    assert ask(dsn, "SHOW listen_addresses") == ""
    assert ask(dsn, "SHOW work_mem") == "7MB"
    assert ask(dsn, "SELECT datcollate FROM pg_database WHERE datname = 'template1'") == "C.UTF-8"
    assert socket_dir(fresh).stat().st_mode & 0o777 == 0o700
    assert fresh.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)
    # Nobody else can hold the lock and so keep the site from starting.
    assert (fresh / "start.lock").stat().st_mode & 0o777 == 0o600


def test_starting_a_running_server_is_quick_and_changes_nothing(data: Path) -> None:
    dsn = start(data)
    pid = postmaster(data)
    began = time.monotonic()
    assert start(data) == dsn
    assert time.monotonic() - began < 1
    assert postmaster(data) == pid


def test_stopping_ends_it_and_data_are_there_after_the_next_start(data: Path) -> None:
    dsn = start(data)
    tell(dsn, "CREATE TABLE kept AS SELECT 41 + 1 AS n")
    stop(data)
    assert servers_of(data) == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    stop(data)
    assert ask(start(data), "SELECT n FROM kept") == 42


def test_a_server_process_keeps_the_memory_of_its_last_statement(data: Path) -> None:
    dsn = start(data)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:

        def pages_taken(n: int) -> int:
            fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text("ascii")
            before = int(fields.rpartition(")")[2].split()[7])
            for _ in range(n):
                connection.execute("SELECT count(DISTINCT i) FROM generate_series(1, 20000) i")
            fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text("ascii")
            return int(fields.rpartition(")")[2].split()[7]) - before

        pages_taken(5)
        assert pages_taken(20) < 400


def test_stopping_a_folder_that_never_was_does_nothing(root: Path) -> None:
    stop(root / "nowhere")
    assert not (root / "nowhere").exists()


def test_the_database_is_created_once_with_pgvector(data: Path) -> None:
    dsn = start(data)
    for _ in range(2):
        postgres.create_database(dsn, 'odd "name"')
    inside = psycopg.conninfo.make_conninfo(dsn, dbname='odd "name"')
    assert ask(inside, "SELECT '[1,2]'::halfvec <-> '[1,3]'::halfvec") == 1


def test_four_racing_starters_make_one_server(fresh: Path) -> None:
    answers = race(fresh)
    assert len(set(answers)) == 1
    assert len(servers_of(fresh)) == 1
    assert ask(answers[0], "SELECT count(*) FROM pg_database WHERE datname = 'citable'") == 1


def test_four_racing_starters_after_a_kill_make_one_server(data: Path) -> None:
    dsn = start(data)
    tell(dsn, "CREATE TABLE kept_over_a_kill AS SELECT 1 AS n")
    tell(dsn, "CHECKPOINT")
    os.kill(postmaster(data), signal.SIGKILL)
    answers = race(data)
    assert set(answers) == {dsn}
    assert len(servers_of(data)) == 1
    assert ask(dsn, "SELECT n FROM kept_over_a_kill") == 1


def test_it_comes_back_after_each_of_three_kills(data: Path) -> None:
    dsn = start(data)
    for _ in range(3):
        kill(data)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(dsn)
        assert ask(start(data), "SELECT 1") == 1


def test_a_zombie_in_the_pid_file_does_not_block_it_for_ever(data: Path) -> None:
    start(data)
    stop(data)
    zombie = process_of_the_server_s_account(data, "true")
    time.sleep(0.2)
    write_pid(data, zombie.pid)
    try:
        assert ask(start(data), "SELECT 1") == 1
        assert postmaster(data) != zombie.pid
    finally:
        zombie.wait()


def test_the_pid_of_another_program_is_not_believed_and_not_signalled(data: Path) -> None:
    start(data)
    stop(data)
    stranger = process_of_the_server_s_account(data, "sleep", "60")
    write_pid(data, stranger.pid)
    try:
        stop(data)
        assert ask(start(data), "SELECT 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_empty_pid_file_is_removed(data: Path) -> None:
    start(data)
    stop(data)
    (data / "pgdata" / "postmaster.pid").touch()
    assert ask(start(data), "SELECT 1") == 1


def process_of_the_server_s_account(data: Path, *command: str) -> subprocess.Popen[bytes]:
    # PostgreSQL itself sees through the pid of a process that it may not signal.
    account = server_account(data)
    return subprocess.Popen(command, user=account.uid, group=account.gid)


def write_pid(data: Path, pid: int) -> None:
    path = data / "pgdata" / "postmaster.pid"
    path.write_text(f"{pid}\n{data / 'pgdata'}\n1700000000\n5432\n{socket_dir(data)}\n\n")
    server_account(data).own(path)


def test_a_half_made_cluster_is_made_anew(fresh: Path) -> None:
    (fresh / "pgdata.new" / "base").mkdir(parents=True)
    (fresh / "pgdata.new" / "PG_VERSION").write_text("18\n")
    fresh.chmod(0o711)
    assert ask(start(fresh), "SELECT 1") == 1
    assert not (fresh / "pgdata.new").exists()


def test_a_path_too_long_for_a_socket_gets_a_short_private_folder(root: Path) -> None:
    data = root / ("deep" * 20) / "postgres"
    sockets = socket_dir(data)
    assert sockets.parent == Path("/tmp")
    assert ask(start(data), "SELECT 1") == 1
    assert sockets.stat().st_mode & 0o777 == 0o700


def test_spaces_quotes_and_commas_in_the_path_do_no_harm(root: Path) -> None:
    assert ask(start(root / "a b's" / "postgres"), "SELECT 1") == 1
    assert ask(start(root / "c, d" / "postgres"), "SELECT 1") == 1


def test_a_path_that_a_shell_would_expand_is_refused(root: Path) -> None:
    with pytest.raises(ConfigurationError, match="has \\$ in its path") as caught:
        start(root / "a$HOME" / "postgres")
    assert "CITABLE_VAR" in str(caught.value)


def test_a_socket_folder_open_to_others_is_refused(data: Path) -> None:
    start(data)
    stop(data)
    socket_dir(data).chmod(0o755)
    with pytest.raises(ConfigurationError, match="open to others"):
        start(data)


def test_a_running_server_behind_an_open_socket_folder_is_refused_too(data: Path) -> None:
    start(data)
    socket_dir(data).chmod(0o777)
    with pytest.raises(ConfigurationError, match="open to others"):
        start(data)


def test_a_cluster_of_another_major_version_is_refused(data: Path) -> None:
    start(data)
    stop(data)
    version = data / "pgdata" / "PG_VERSION"
    ours = version.read_text()
    version.write_text("14\n")
    with pytest.raises(ConfigurationError, match="PostgreSQL 14") as caught:
        start(data)
    version.write_text(ours)
    assert "pg_dumpall" in str(caught.value)


def test_a_server_that_cannot_start_says_why_within_seconds(data: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ConfigurationError, match=r"no_such_option"):
        start(data, no_such_option="1")
    assert time.monotonic() - began < 15


def test_a_folder_that_cannot_be_made_is_one_sentence(root: Path) -> None:
    (root / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        start(root / "file" / "postgres")


@as_root
def test_the_superuser_s_server_runs_as_a_lesser_account(fresh: Path) -> None:
    start(fresh)
    owner = Path("/proc", str(postmaster(fresh))).stat().st_uid
    assert owner in {pwd.getpwnam(name).pw_uid for name in ("postgres", "nobody") if exists(name)}
    assert fresh.stat().st_uid == 0


@as_root
def test_programs_in_a_private_folder_are_copied_and_used_by_stop(root: Path, fresh: Path) -> None:
    private = root / "home"
    package = install_dir().parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, private / folder.name, ignore=shutil.ignore_patterns("include"))
    private.chmod(0o700)
    hidden = private / package.name / install_dir().name
    assert ask(postgres.start_postgres(hidden, fresh, FAST), "SELECT 1") == 1
    program = Path("/proc", str(postmaster(fresh)), "exe").resolve()
    assert program.is_relative_to(fresh)
    postgres.stop_postgres(hidden, fresh)
    assert servers_of(fresh) == []
    copies = list(fresh.glob("install-*"))
    assert ask(postgres.start_postgres(hidden, fresh, FAST), "SELECT 1") == 1
    assert list(fresh.glob("install-*")) == copies


@as_root
def test_a_data_folder_that_the_account_cannot_enter_is_refused(root: Path) -> None:
    (root / "home").mkdir(mode=0o700)
    with pytest.raises(ConfigurationError, match="cannot enter"):
        start(root / "home" / "postgres")


@as_root
def test_an_ordinary_user_runs_it_and_the_superuser_uses_the_same(root: Path) -> None:
    user = pwd.getpwnam("nobody")
    programs = usable_install(install_dir(), root, ServerAccount(user.pw_uid, user.pw_gid))
    home = root / "home"
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    data = home / "postgres"
    queue = multiprocessing.get_context("fork").SimpleQueue()
    child = multiprocessing.get_context("fork").Process(
        target=start_as, args=(user, programs, data, queue)
    )
    child.start()
    child.join(30)
    dsn, mode = queue.get()
    assert mode == 0o700
    assert ask(dsn, "SELECT 1") == 1
    assert Path("/proc", str(postmaster(data))).stat().st_uid == user.pw_uid
    kill(data)
    assert postgres.start_postgres(programs, data, FAST) == dsn
    assert Path("/proc", str(postmaster(data))).stat().st_uid == user.pw_uid


def start_as(user: pwd.struct_passwd, programs: Path, data: Path, queue: Any) -> None:
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    queue.put((postgres.start_postgres(programs, data, FAST), data.stat().st_mode & 0o777))


def exists(name: str) -> bool:
    return any(entry.pw_name == name for entry in pwd.getpwall())
