"""Processes of Python forked from one that has imported what reads no settings: our core and stages, libraries.

Each has its own environment, folder, arguments, input, output and end, and sets Django up for itself,
as if it had been started alone; only the second in which Python imports the rest is spent once for all.
What is about the start itself, or about what is imported when, starts ``sys.executable`` instead.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

BASE_DIR = Path(__file__).resolve().parents[1]
# What every command and server of ours imports, as far as it needs neither settings nor models.
LIBRARIES = (
    "croniter",
    "django.contrib.admin",
    "httpx2",
    "numpy",
    "procrastinate",
    "psycopg_pool",
    "requests",
    "uvicorn",
    "yaml",
)
PURE = ("rag.core", "rag.stages", "agents.core")
_LARGEST = 1 << 20
_STARTING = threading.Lock()


class ForkedProcess:
    """A running process; as subprocess.Popen, as far as tests use that."""

    def __init__(self, status: int) -> None:
        self._status = os.fdopen(status, "rb", buffering=0)
        self.returncode: int | None = None
        self.pid = int(self._status.readline())

    def poll(self) -> int | None:
        """Return the code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the code."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def start_python(
    *words: str,
    env: Mapping[str, str],
    cwd: Path = BASE_DIR,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.DEVNULL,
    stderr: int | IO[Any] = subprocess.DEVNULL,
) -> ForkedProcess:
    """Start what ``python`` would with these words: ``-c`` and code, ``-m`` and a module, or a file."""
    with contextlib.ExitStack() as stack:
        ends = [stdin, stdout, stderr]
        for at, end in enumerate(ends):
            if end == subprocess.DEVNULL:
                ends[at] = stack.enter_context(Path(os.devnull).open("r+b", buffering=0))
            elif end == subprocess.STDOUT:
                ends[at] = ends[1]
        numbers = [end if isinstance(end, int) else end.fileno() for end in ends]
        status, told = os.pipe()
        stack.callback(os.close, told)
        order = json.dumps([words, dict(env), str(cwd)]).encode()
        socket.send_fds(_parent(), [order], [*numbers, told])
    return ForkedProcess(status)


def run_python(
    *words: str, env: Mapping[str, str], cwd: Path = BASE_DIR, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, as subprocess.run with captured text."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start_python(*words, env=env, cwd=cwd, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *texts)


def _parent() -> socket.socket:
    """Return the way to the process that forks; it ends when this one does and its socket closes.

    Threads that come at once wait for one: of two, one would be forgotten, and with it end those
    that it has forked.
    """
    with _STARTING:
        return _started()


@functools.cache
def _started() -> socket.socket:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with its:
        subprocess.Popen(
            [sys.executable, "-m", "tests.forked_processes", str(its.fileno())],
            cwd=BASE_DIR,
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
        )
    return ours


def serve(orders: socket.socket) -> None:
    """Fork a process for each order; tell its pid, and later its code."""
    for name in (*LIBRARIES, *PURE):
        module = importlib.import_module(name)
        if name in PURE:
            for found in pkgutil.walk_packages(module.__path__, f"{name}."):
                importlib.import_module(found.name)
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([orders, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(running)
        if orders in ready:
            order, ends, _, _ = socket.recv_fds(orders, _LARGEST, 4)
            if not order:
                return
            *ends, told = ends
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, end in enumerate(ends):
                    os.dup2(end, number)
                orders.close()
                for number in (woken, wake, told, *ends, *running.values()):
                    os.close(number)
                _become(*json.loads(order))
                # It ends as every process does: threads are waited for, an exit code is its own.
                return
            for end in ends:
                os.close(end)
            running[pid] = told
            os.write(told, b"%d\n" % pid)


def _become(words: list[str], environment: dict[str, str], folder: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    given = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    kind, *rest = words
    first = "" if kind == "-c" else folder if kind == "-m" else str(Path(kind).resolve().parent)
    sys.path[:1] = [first, *given]
    importlib.invalidate_caches()
    if kind == "-c":
        code, *arguments = rest
        sys.argv = ["-c", *arguments]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(main))
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(kind, run_name="__main__")


def _reap(running: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            told = running.pop(pid)
            # Whoever asked for it may have gone.
            with contextlib.suppress(BrokenPipeError):
                os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(told)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
