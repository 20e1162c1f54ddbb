"""``manage.py rag_serve`` as a user runs it: two programs that live and end together."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from project.postgres import server as postgres
from project.postgres.paths import USER, install_dir, socket_dir
from tests.forked_processes import run_python, start_python

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def var() -> Iterator[Path]:
    """An installation; whoever serves it next finds the tables made."""
    folder = Path(tempfile.mkdtemp(prefix="citable-serve-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    postgres.stop_postgres(install_dir(), folder / "postgres")
    shutil.rmtree(folder)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Serving:
    """One running ``rag_serve``; its output goes to a file."""

    def __init__(self, var: Path, port: int) -> None:
        self.log = var / "serve.log"
        self.url = f"http://127.0.0.1:{port}/"
        self.started_at = datetime.now(UTC)
        env = {"CITABLE_VAR": str(var), "DATABASE_URL": "", "WORKER_SHUTDOWN_TIMEOUT": "2"}
        env |= {"WORKER_HEARTBEAT": "1"}
        fast = {"POSTGRES_OPTIONS": "fsync=off,shared_buffers=32MB"}
        self.process = start_python(
            "manage.py",
            "rag_serve",
            "--port",
            str(port),
            env=os.environ | env | fast,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
        )

    def status(self) -> int:
        try:
            with urllib.request.urlopen(self.url, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                self.status()
                return
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def children(self) -> dict[str, int]:
        """Return the pids of the web server and the worker by a word of their command."""
        listed = Path("/proc", str(self.process.pid), "task", str(self.process.pid), "children")
        commands = {}
        for pid in listed.read_text().split():
            line = Path("/proc", pid, "cmdline").read_bytes().decode()
            commands["web" if "web_server" in line else "worker"] = int(pid)
        return commands

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def serving(var: Path, port: int) -> Iterator[Serving]:
    started = Serving(var, port)
    try:
        started.wait_until_it_answers()
        yield started
    finally:
        if started.process.poll() is None:
            started.process.terminate()
            started.process.wait(30)


def heartbeat_after(var: Path, moment: datetime) -> datetime:
    """Wait for the worker's first heartbeat after ``moment``."""
    host = str(socket_dir(var / "postgres"))
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(host=host, user=USER, dbname="citable") as connection,
        ):
            row = connection.execute("SELECT max(last_heartbeat) FROM procrastinate_workers")
            (last,) = row.fetchone() or (None,)
            if last is not None and last > moment:
                return last  # type: ignore[no-any-return]
        time.sleep(0.2)
    raise AssertionError("the worker's heart has stopped")


def is_alive(pid: int) -> bool:
    stat = Path("/proc", str(pid), "stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_it_serves_survives_the_kill_of_each_part_and_ends_all_on_ctrl_c(
    serving: Serving, var: Path
) -> None:
    """One life: what starts takes ten seconds of a processor each time."""
    assert serving.status() in {200, 302, 404}
    assert serving.url in serving.log.read_text()
    assert set(serving.children()) == {"web", "worker"}
    _what_is_killed_is_started_again_and_the_other_goes_on(serving, "worker", "The queue worker")
    _what_is_killed_is_started_again_and_the_other_goes_on(serving, "web", "The web server")
    _the_worker_goes_on_with_the_database_that_was_started_for_it(var)
    children = serving.children()
    assert serving.end(signal.SIGINT) == 0
    assert not any(is_alive(pid) for pid in children.values())
    assert serving.log.read_text().endswith("Stopped\n")


def _what_is_killed_is_started_again_and_the_other_goes_on(
    serving: Serving, name: str, told: str
) -> None:
    before = serving.children()
    os.kill(before[name], signal.SIGKILL)
    deadline = time.monotonic() + 30
    # While a child is being made, the kernel's list may leave out another.
    while set(after := serving.children()) != set(before) or after[name] == before[name]:
        assert time.monotonic() < deadline, after
        time.sleep(0.1)
    assert {**after, name: before[name]} == before
    assert f"{told} ended with code -9 and is started again in 0.5 s" in serving.log.read_text()
    serving.wait_until_it_answers()


def _the_worker_goes_on_with_the_database_that_was_started_for_it(var: Path) -> None:
    killed = heartbeat_after(var, datetime.now(UTC))
    pid_file = var / "postgres" / "pgdata" / "postmaster.pid"
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)
    assert heartbeat_after(var, killed) > killed


def test_when_it_is_killed_itself_neither_the_web_server_nor_the_worker_goes_on(
    serving: Serving, port: int
) -> None:
    children = serving.children()
    serving.process.kill()
    serving.process.wait(10)
    deadline = time.monotonic() + 20
    while any(is_alive(pid) for pid in children.values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # The port is free for the next one at once.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_a_taken_port_is_one_sentence(var: Path, port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        env = os.environ | {"CITABLE_VAR": str(var)}
        done = run_python("manage.py", "rag_serve", "--port", str(port), env=env, timeout=30)
    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr
