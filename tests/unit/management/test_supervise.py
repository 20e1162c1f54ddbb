"""Programs that run together end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.management.supervise import ProcessExit, supervise

# Says its name when it is asked to end, and then takes the time that it was given.
POLITE = """
import signal, sys, time
from pathlib import Path
def leave(number, frame):
    with Path(sys.argv[1]).open("a") as file:
        file.write(signal.Signals(number).name + "\\n")
    time.sleep(float(sys.argv[2]))
    sys.exit(0)
signal.signal(signal.SIGINT, leave)
signal.signal(signal.SIGTERM, leave)
Path(sys.argv[1]).touch()
while True:
    time.sleep(0.05)
"""


def polite(log: Path, takes_s: float = 0.0) -> list[str]:
    return [sys.executable, "-c", POLITE, str(log), str(takes_s)]


def nothing() -> None:
    return


def send_when_ready(logs: list[Path], *signals: int, pause_s: float = 0.3) -> threading.Thread:
    def wait_and_send() -> None:
        while not all(log.exists() for log in logs):
            time.sleep(0.02)
        for number in signals:
            os.kill(os.getpid(), number)
            time.sleep(pause_s)

    thread = threading.Thread(target=wait_and_send)
    thread.start()
    return thread


@pytest.fixture(autouse=True)
def unchanged_handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_once_to_each(tmp_path: Path, number: signal.Signals) -> None:
    logs = [tmp_path / "a", tmp_path / "b"]
    thread = send_when_ready(logs, number)
    commands = {log.name: polite(log) for log in logs}
    assert supervise(commands, grace_s=10, tick=nothing) is None
    thread.join()
    assert [log.read_text().split() for log in logs] == [[number.name]] * 2


def test_when_one_ends_at_its_start_the_others_are_ended_and_it_is_named(tmp_path: Path) -> None:
    log = tmp_path / "stays"
    waits = f"""
import sys, time
from pathlib import Path
while not Path({str(log)!r}).exists():
    time.sleep(0.02)
sys.exit(3)
"""
    commands = {"stays": polite(log), "ends": [sys.executable, "-c", waits]}
    assert supervise(commands, grace_s=10, tick=nothing) == ProcessExit("ends", 3)
    assert log.read_text().split() == ["SIGTERM"]


def test_one_that_takes_too_long_is_killed_after_the_grace(tmp_path: Path) -> None:
    log = tmp_path / "slow"
    thread = send_when_ready([log], signal.SIGTERM)
    began = time.monotonic()
    assert supervise({"slow": polite(log, 30)}, grace_s=0.5, tick=nothing) is None
    thread.join()
    assert time.monotonic() - began < 10


def test_a_second_signal_kills_at_once(tmp_path: Path) -> None:
    log = tmp_path / "slow"
    thread = send_when_ready([log], signal.SIGINT, signal.SIGINT)
    began = time.monotonic()
    assert supervise({"slow": polite(log, 30)}, grace_s=30, tick=nothing) is None
    thread.join()
    assert time.monotonic() - began < 10


def test_an_error_in_the_tick_ends_all_and_is_raised(tmp_path: Path) -> None:
    log = tmp_path / "a"

    def tick() -> None:
        if log.exists():
            raise LookupError("no database")

    with pytest.raises(LookupError):
        supervise({"a": polite(log)}, grace_s=10, tick=tick)
    assert log.read_text().split() == ["SIGTERM"]


def test_a_program_that_cannot_start_ends_those_that_did(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    first = [sys.executable, "-c", code, str(pid_file)]
    commands = {"first": first, "second": [str(tmp_path / "absent")]}
    with pytest.raises(FileNotFoundError):
        supervise(commands, grace_s=5, tick=nothing)
    if pid_file.exists():
        assert subprocess.run(["ps", "-p", pid_file.read_text()], check=False).returncode != 0


@pytest.mark.parametrize(
    ("startup_s", "ends", "code"),
    [(0, "raise SystemExit(3)", 3), (60, "os.kill(os.getpid(), 9)", -9)],
)
def test_one_that_ends_later_or_is_killed_is_started_again_with_a_growing_pause(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    startup_s: int,
    ends: str,
    code: int,
) -> None:
    monkeypatch.setattr("rag.management.supervise._STARTUP_S", startup_s)
    monkeypatch.setattr("rag.management.supervise._FIRST_PAUSE_S", 0.25)
    log, stays = tmp_path / "starts", tmp_path / "stays"
    script = f"import os\nwith open({str(log)!r}, 'a') as file: file.write('x')\n{ends}"
    commands = {"short": [sys.executable, "-c", script], "long": polite(stays)}

    def tick() -> None:
        if log.exists() and log.read_text() == "xxx" and stays.exists():
            os.kill(os.getpid(), signal.SIGTERM)

    assert supervise(commands, grace_s=5, tick=tick) is None
    assert stays.read_text().split() == ["SIGTERM"]
    told = capsys.readouterr().err.splitlines()
    for pause, line in zip(("0.25", "0.5"), told, strict=False):
        assert line == f"The short ended with code {code} and is started again in {pause} s."
