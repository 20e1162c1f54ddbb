"""Metrics and tracing hooks: counters, timings and spans, sent to the listeners of an edge.

Without a listener a call costs a look at an empty list. Labels are few and short words: never a
text, a name of a person or a secret.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

Finish = Callable[[Mapping[str, Any]], None]


class MetricsListener(Protocol):
    """Takes what is told; must be quick, must not raise, and is called from any thread."""

    def count(self, name: str, n: float, labels: Mapping[str, str]) -> None:
        """Add ``n`` to a counter."""
        ...

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        """Note how long something took."""
        ...

    def span(self, name: str, facts: Mapping[str, Any], is_current: bool) -> Finish | None:
        """Begin a span; what is returned is called with further facts at its end."""
        ...


LISTENERS: list[MetricsListener] = []


@dataclass(slots=True)
class Span:
    """Something that takes time. ``facts`` may be added to until it ends."""

    facts: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    _finishes: list[Finish] = field(default_factory=list)

    def begin(self, name: str, is_current: bool) -> Span:
        """Tell that it begins, once; ``is_current`` makes what follows in this context its part."""
        for watcher in LISTENERS:
            if (finish := watcher.span(name, dict(self.facts), is_current)) is not None:
                self._finishes.append(finish)
        return self

    def end(self) -> float:
        """Tell that it has ended, once; return the seconds that it took."""
        finishes, self._finishes = self._finishes, []
        for finish in reversed(finishes):
            finish(self.facts)
        return time.perf_counter() - self.started


def count(name: str, n: float = 1, **labels: str) -> None:
    """Tell that something happened."""
    for watcher in LISTENERS:
        watcher.count(name, n, labels)


def observe(name: str, seconds: float, **labels: str) -> None:
    """Tell how long something took."""
    for watcher in LISTENERS:
        watcher.time(name, seconds, labels)


def start_span(name: str, **facts: Any) -> Span:
    """Return a span to be ended by the caller, for work that is left and entered again."""
    return Span(facts).begin(name, False)


@contextmanager
def span(name: str, **facts: Any) -> Iterator[Span]:
    """Make what is done inside a span; the kind of what is raised is told, not its text."""
    made = Span(facts).begin(name, True)
    try:
        yield made
    except BaseException as error:
        made.facts["error"] = type(error).__name__
        raise
    finally:
        made.end()
