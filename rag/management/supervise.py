"""Process supervisor: runs several programs together until one ends or a signal comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

_POLL_S = 0.2
_WINDOW_S = 60.0
_MAX_RESTARTS = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """A program that ended without being asked to."""

    name: str
    code: int


def supervise(
    commands: Mapping[str, Sequence[str]],
    *,
    grace_s: float,
    tick: Callable[[], None],
    restarted: Collection[str] = (),
) -> ProcessExit | None:
    """Run ``commands`` until one ends or this process gets SIGINT or SIGTERM, then end the others.

    They get the same signal and ``grace_s`` seconds, or until a second signal; ``tick`` is called
    between looks. Those in ``restarted`` are started again, up to five times a minute. Returns the
    program that ended by itself, None after a signal.
    """
    received: list[int] = []
    starts: list[float] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            children[name] = _start(command)
        while not received:
            for name, child in children.items():
                if (code := child.poll()) is None:
                    continue
                starts = [at for at in starts if at > time.monotonic() - _WINDOW_S]
                if name not in restarted or len(starts) >= _MAX_RESTARTS:
                    return ProcessExit(name, code)
                sys.stderr.write(f"The {name} ended with code {code} and is started again.\n")
                starts.append(time.monotonic())
                time.sleep(len(starts) * _POLL_S)
                children[name] = _start(commands[name])
            tick()
            time.sleep(_POLL_S)
        return None
    finally:
        _end(list(children.values()), received, grace_s)
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # A group of their own: Ctrl+C reaches the whole group, and twice means at once. The pipe closes
    # with this process, however that ends; see parent_watchdog.py.
    return subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)


def _end(children: list[subprocess.Popen[bytes]], received: list[int], grace_s: float) -> None:
    n_received = len(received)
    for child in children:
        # Popen sends nothing to a process that it has already seen end.
        child.send_signal(received[0] if received else signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while any(child.poll() is None for child in children):
        if time.monotonic() > deadline or len(received) > n_received:
            for child in children:
                child.kill()
        time.sleep(_POLL_S / 4)
