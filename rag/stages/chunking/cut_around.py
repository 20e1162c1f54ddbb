"""Splitting around kept spans: sections cut so that edited chunks keep their place.

Where the cuts fall on a hole's borders anyway, all others stay where they would be without it: a
chunk that somebody edits moves none of its neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar


class CutSpan(Protocol):
    """A span that was cut; its own part is ``[own, end)``."""

    @property
    def own(self) -> int:
        """Return where the part begins that no earlier span holds."""
        ...

    @property
    def end(self) -> int:
        """Return where it ends."""
        ...


C = TypeVar("C", bound=CutSpan)


def chunk_around_edits(
    section: tuple[int, int],
    holes: Sequence[tuple[int, int]],
    cut: Callable[[int, int], Iterator[C]],
) -> Iterator[C | None]:
    """Yield the spans of a section whose own parts lie in no hole, and None for each hole.

    ``holes`` are in order and do not overlap; None comes in the section where a hole begins.
    ``cut`` cuts a stretch from its beginning.
    """
    low, high = section
    waiting = deque(hole for hole in holes if hole[0] < high and hole[1] > low)
    spans = cut(low, high)
    while (span := next(spans, None)) is not None:
        while waiting and waiting[0][1] <= span.own:
            yield from _told(waiting.popleft(), low)
        if not waiting or span.end <= waiting[0][0]:
            yield span
            continue
        hole = waiting[0]
        if hole[0] <= span.own and span.end <= hole[1]:
            continue
        if span.own < hole[0]:
            yield from cut(span.own, hole[0])
        yield from _told(waiting.popleft(), low)
        spans = cut(min(hole[1], high), high)
    for hole in waiting:
        yield from _told(hole, low)


def _told(hole: tuple[int, int], low: int) -> Iterator[None]:
    if hole[0] >= low:
        yield None
