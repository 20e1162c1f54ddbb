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
from collections.abc import Iterator
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
        return process.wait(wall_s)
    except subprocess.TimeoutExpired:
        return None
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
