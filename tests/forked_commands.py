"""Commands of manage.py in processes of their own, forked from one that has imported everything.

Each has its own arguments, input, output and end, as if it had been started alone; only the time in
which Python imports the product is spent once for all commands of an environment.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import django
from django.apps import apps
from django.urls import get_resolver

from tests.forked_processes import start_python


class ForkedCommand:
    """A running command; ``returncode`` is as of subprocess.Popen."""

    def __init__(self, parent: Commands, pid: int, output: Path) -> None:
        self._parent, self.pid, self._output = parent, pid, output

    def poll(self) -> int | None:
        """Return the code, or None while it runs."""
        return self._parent.code(self.pid, 0)

    def wait(self, timeout_s: float = 120) -> int:
        """Wait for the end and return the code."""
        code = self._parent.code(self.pid, timeout_s)
        assert code is not None, f"it runs after {timeout_s} s: {self.stderr}"
        return code

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    @property
    def stdout(self) -> str:
        """What it has printed."""
        return self._output.with_suffix(".out").read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        """What it has told of errors."""
        return self._output.with_suffix(".err").read_text(encoding="utf-8")


class Commands:
    """Starts commands in one environment; ends with its block, and so do they."""

    def __init__(self, environment: Mapping[str, str], *, is_warm: bool = False) -> None:
        """``is_warm``: the embedding model is loaded once, too; onnxruntime's does not fork."""
        self._environment = {**environment, "DJANGO_SETTINGS_MODULE": "project.settings"}
        self._words = ["warm"] if is_warm else []
        self._codes: dict[int, int] = {}
        self._running: set[int] = set()
        self._n = 0

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="citable-commands-")
        self._log = (Path(self._folder.name) / "parent.err").open("w+b")
        its_input, orders = os.pipe()
        told, its_output = os.pipe()
        self._orders, self._told = os.fdopen(orders, "wb", 0), os.fdopen(told, "rb", 0)
        self._process = start_python(
            "-m",
            "tests.forked_commands",
            *self._words,
            env=self._environment,
            stdin=its_input,
            stdout=its_output,
            stderr=self._log,
        )
        os.close(its_input)
        os.close(its_output)
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self._running.copy():
            if self.code(pid, 0) is None:
                os.kill(pid, signal.SIGKILL)
        self._orders.close()
        self._process.wait(20)
        self._told.close()
        self._log.close()
        self._folder.cleanup()

    def start(self, *command: str, stdin: str = "") -> ForkedCommand:
        """Start ``manage.py`` with these words, or ``-m`` and a module with its words."""
        self._n += 1
        output = Path(self._folder.name) / str(self._n)
        output.with_suffix(".in").write_text(stdin, encoding="utf-8")
        self._orders.write(json.dumps([str(output), *command]).encode() + b"\n")
        while "pid" not in (told := self._read()):
            pass
        self._running.add(told["pid"])
        return ForkedCommand(self, told["pid"], output)

    def run(
        self, *command: str, stdin: str = "", timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run ``manage.py`` with these words to its end."""
        started = self.start(*command, stdin=stdin)
        code = started.wait(timeout_s)
        return subprocess.CompletedProcess(command, code, started.stdout, started.stderr)

    def code(self, pid: int, timeout_s: float) -> int | None:
        """Return the code of a command, or None if it has not ended in time."""
        deadline = time.monotonic() + timeout_s
        while pid in self._running:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._told], [], [], left)[0]:
                return None
            self._read()
        return self._codes[pid]

    def _read(self) -> dict[str, Any]:
        line = self._told.readline()
        if not line:
            self._log.seek(0)
            raise AssertionError(self._log.read().decode())
        told: dict[str, Any] = json.loads(line)
        if "ended" in told:
            self._running.discard(told["ended"])
            self._codes[told["ended"]] = told["code"]
        return told


def serve() -> None:
    """Fork a command for each line of the input; tell its pid, and later its code."""
    django.setup()
    # Every command's checks load the addresses.
    assert get_resolver().url_patterns
    if sys.argv[1:]:
        # What it imports needs the models.
        from rag.services.wiring.registry import warm_up

        warm_up()
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    _tell({"ready": True})
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap()
        if 0 in ready:
            # Unbuffered: what follows is not read ahead, which a child would take for its own.
            line = sys.stdin.buffer.raw.readline()  # type: ignore[attr-defined]
            if not line:
                return
            output, *words = json.loads(line)
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(woken)
                os.close(wake)
                _become(Path(output), words)
                # It ends as every process does: threads are waited for, an exit code is its own.
                return
            _tell({"pid": pid})


def _become(output: Path, words: list[str]) -> None:
    for number, suffix in enumerate((".in", ".out", ".err")):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
        file = os.open(output.with_suffix(suffix), flags)
        os.dup2(file, number)
        os.close(file)
    if words[0] == "-m":
        sys.argv = words[1:]
    else:
        sys.argv = ["manage.py", *words]
    # Servers and workers are told by their arguments, which have come only now.
    apps.get_app_config("project").ready()
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path("manage.py", run_name="__main__")


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            _tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _tell(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    serve()
