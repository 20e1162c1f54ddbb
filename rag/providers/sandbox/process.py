"""Child processes with limits on memory, time and files, for what people upload.

They see no settings and no secrets, and end with all that they started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

_ROOT = Path(__file__).resolve().parents[3]
_PREFIX = "citable-parse-"


@contextlib.contextmanager
def child_folder() -> Iterator[Path]:
    """Lend a folder for one process; what killed parents left goes first."""
    _sweep()
    prefix = f"{_PREFIX}{os.getpid()}-"
    with TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as made:
        yield Path(made)


def run_child(module: str, folder: Path, wall_s: float) -> int | None:
    """Run ``python -m module folder`` and return its exit code, None when the time ran out.

    What it prints as errors is in ``folder/complaint``; its limits are those it sets itself.
    """
    with _child(module, folder) as process:
        try:
            return process.wait(wall_s)
        except subprocess.TimeoutExpired:
            return None


def watch_child(
    module: str, folder: Path, stall_s: float, look: Callable[[], bool], every_s: float = 0.2
) -> int | None:
    """Run ``python -m module folder`` as long as ``look`` says that it goes on.

    Return its exit code, None when it did nothing for ``stall_s`` seconds.
    """
    with _child(module, folder) as process:
        last = time.monotonic()
        while time.monotonic() - last < stall_s:
            try:
                code = process.wait(every_s)
                look()
                return code
            except subprocess.TimeoutExpired:
                if look():
                    last = time.monotonic()
    return None


@contextlib.contextmanager
def _child(module: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        "PATH": f"/usr/local/bin:{os.defpath}",
        "PYTHONPATH": str(_ROOT),
        "TMPDIR": str(folder),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        # One thread each: native libraries reserve address space for every one they start.
        "RAYON_NUM_THREADS": "1",
        "TOKIO_WORKER_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
    with (folder / "complaint").open("wb") as complaint:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaint,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


@cache
def _sweep() -> None:
    """Remove what parents that were killed have left, once a process."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        is_ours = folder.lstat().st_uid == os.geteuid()
        if owner.isdigit() and is_ours and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
