"""Keeps several programs running together. In: their commands. Out: which one ended by itself."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

_POLL_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that ended without being asked to."""

    name: str
    code: int


def supervise(
    commands: Mapping[str, Sequence[str]], *, grace_s: float, tick: Callable[[], None]
) -> Ended | None:
    """Run ``commands`` until one ends or this process gets SIGINT or SIGTERM, then end the others.

    They get the same signal and ``grace_s`` seconds, or until a second signal; ``tick`` is called
    between looks. Returns the program that ended by itself, None after a signal.
    """
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            # A group of their own: Ctrl+C reaches the whole group, and twice means at once.
            children[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
        while not received:
            for name, child in children.items():
                if (code := child.poll()) is not None:
                    return Ended(name, code)
            tick()
            time.sleep(_POLL_S)
        return None
    finally:
        _end(list(children.values()), received, grace_s)
        for number, handler in before.items():
            signal.signal(number, handler)


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
