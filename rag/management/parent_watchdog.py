"""Parent watchdog: ``parent_watchdog.py GRACE_S PROGRAM ARG...`` ends PROGRAM with its starter.

Its standard input is a pipe, held open by the starter and never written to; PROGRAM is a script
or a module. When the pipe closes, a starter that was killed included, the program gets SIGTERM and
after GRACE_S seconds SIGKILL.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path


def run_watched() -> None:
    """Run the program in this process, as Python itself would."""
    grace_s, program, *arguments = sys.argv[1:]
    held = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(held, float(grace_s)), daemon=True).start()
    # In place of this file's own folder, which Python puts there.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _watch(held: int, grace_s: float) -> None:
    while os.read(held, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run_watched()
