"""A program under its watchdog is the program itself, until nobody holds the other end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WATCHDOG = Path(__file__).resolve().parents[3] / "rag" / "management" / "parent_watchdog.py"
TELL = """
import os, sys
print(sys.argv[1:], sys.path[0], __name__, sys.stdin.read() == "", os.getpgrp() == os.getpid())
raise SystemExit(int(sys.argv[1]))
"""
STAY = """
import signal, sys, time
from pathlib import Path
log = Path(sys.argv[1])
def leave(number, frame):
    log.write_text(signal.Signals(number).name)
    if sys.argv[2] == "polite":
        sys.exit(0)
signal.signal(signal.SIGTERM, leave)
log.touch()
while True:
    time.sleep(0.05)
"""


def script(folder: Path, code: str) -> Path:
    path = folder / "program.py"
    path.write_text(code)
    return path


def start(*arguments: str | Path, grace_s: float = 5.0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, WATCHDOG, str(grace_s), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def staying(tmp_path: Path, manner: str, grace_s: float) -> subprocess.Popen[str]:
    process = start(script(tmp_path, STAY), tmp_path / "log", manner, grace_s=grace_s)
    deadline = time.monotonic() + 20
    while not (tmp_path / "log").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_a_script_runs_as_if_alone_and_its_code_is_passed_on(tmp_path: Path) -> None:
    process = start(script(tmp_path, TELL), "3", "--flag")
    assert process.stdout is not None
    told = process.stdout.read().split()
    assert process.wait(20) == 3
    root = str(WATCHDOG.parents[2])
    # The pipe is not its input, and modules are found as from the installation's folder.
    assert told == ["['3',", "'--flag']", root, "__main__", "True", "True"]


def test_a_module_runs_too() -> None:
    process = start("json.tool", "--help")
    assert process.stdout is not None
    assert "json" in process.stdout.read()
    assert process.wait(20) == 0


def test_when_the_other_end_is_let_go_the_program_is_asked_to_end(tmp_path: Path) -> None:
    process = staying(tmp_path, "polite", 30)
    assert process.poll() is None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(10) == 0
    assert (tmp_path / "log").read_text() == "SIGTERM"


def test_one_that_will_not_end_is_killed_after_the_grace(tmp_path: Path) -> None:
    process = staying(tmp_path, "rude", 0.5)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(10) == -signal.SIGKILL
    assert (tmp_path / "log").read_text() == "SIGTERM"


@pytest.mark.parametrize("manner", ["polite"])
def test_a_starter_that_is_killed_lets_go(tmp_path: Path, manner: str) -> None:
    starter = script(
        tmp_path,
        f"""
import subprocess, sys, time
command = [sys.executable, {str(WATCHDOG)!r}, "5", {str(tmp_path / "stay.py")!r}, {str(tmp_path / "log")!r}, {manner!r}]
child = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
print(child.pid, flush=True)
time.sleep(60)
""",
    )
    (tmp_path / "stay.py").write_text(STAY)
    process = subprocess.Popen([sys.executable, starter], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    deadline = time.monotonic() + 20
    while not (tmp_path / "log").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait(10)
    while Path("/proc", str(child)).exists() and (tmp_path / "log").read_text() != "SIGTERM":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (tmp_path / "log").read_text() == "SIGTERM"
