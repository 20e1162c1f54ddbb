"""Process supervisor: runs several programs together until a signal comes, and restarts them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

_POLL_S = 0.2
# Who ends by itself so soon after the first start has wrong settings, which a second start does not
# mend; who is killed has none.
_STARTUP_S = 5.0
# The pause before a start doubles up to the most, and is the first again after a good minute.
_FIRST_PAUSE_S, _MAX_PAUSE_S, _WINDOW_S = 0.5, 30.0, 60.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """A program that could not be started."""

    name: str
    code: int


def supervise(
    commands: Mapping[str, Sequence[str]], *, grace_s: float, tick: Callable[[], None]
) -> ProcessExit | None:
    """Run ``commands`` until this process gets SIGINT or SIGTERM, then end them.

    They get the same signal and ``grace_s`` seconds, or until a second signal; ``tick`` is called
    between looks. One that ends is started again with a growing pause, the others go on; one that
    ends by itself within seconds of its first start ends all. Returns it, None after a signal.
    """
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    programs: list[_Program] = []
    try:
        for name, command in commands.items():
            programs.append(_Program(name, command))
        while not received:
            for program in programs:
                if (ended := program.look_after()) is not None:
                    return ended
            tick()
            time.sleep(_POLL_S)
        return None
    finally:
        _end([program.child for program in programs], received, grace_s)
        for number, handler in before.items():
            signal.signal(number, handler)


class _Program:
    """One of the commands, its process, and when it may be started again."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name, self._command = name, command
        self._n_starts, self._pause_s = 0, _FIRST_PAUSE_S
        self._next_start: float | None = None
        self._start()

    def look_after(self) -> ProcessExit | None:
        """Start it again when its pause is over; return how it ended when that makes no sense."""
        if self._next_start is not None:
            if time.monotonic() >= self._next_start:
                self._start()
            return None
        if (code := self.child.poll()) is None:
            return None
        ran_s = time.monotonic() - self._started
        if self._n_starts == 1 and ran_s < _STARTUP_S and code >= 0:
            return ProcessExit(self.name, code)
        if ran_s > _WINDOW_S:
            self._pause_s = _FIRST_PAUSE_S
        sys.stderr.write(
            f"The {self.name} ended with code {code} and is started again in {self._pause_s:g} s.\n"
        )
        self._next_start = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        return None

    def _start(self) -> None:
        self.child = _start(self._command)
        self._started, self._next_start = time.monotonic(), None
        self._n_starts += 1


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
