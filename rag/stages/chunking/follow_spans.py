"""Span tracking: where spans of a text lie in its next version.

A passage is followed by its own words and those around it; what only differs in white space,
width or punctuation marks is found too. What nothing tells from chance is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from rag.stages.text.normalize import normalize_quote

# How far around a passage its neighbours tell where it belongs.
AROUND = 100
# With its neighbours a passage must have so many characters in common with its new place.
MIN_SHARED = 12
# How far from where it should be a passage is looked for when its very words are gone.
REACH = 20_000
MAX_PLACES = 2000

Span = tuple[int, int]


def follow_spans(old: str, new: str, spans: Sequence[Span]) -> list[Span | None]:
    """Return for each span of ``old`` the span of the same passage in ``new``, None when gone.

    An empty span is a place between two passages.
    """
    if old == new:
        return list(spans)
    texts = _Versions(old, new)
    return [
        texts.place(*span) if start < end else texts.gap(start)
        for span in spans
        for start, end in [span]
    ]


class _Versions:
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new
        shorter = min(len(old), len(new))
        self.head = _longest(shorter, lambda n: old[:n] == new[:n])
        rest = shorter - self.head
        self.tail = _longest(rest, lambda n: old[len(old) - n :] == new[len(new) - n :])

    def gap(self, at: int) -> Span | None:
        """Return the place behind what stood before, or before what stood behind."""
        if found := self._kept(at, at):
            return found
        before = self.place(max(0, at - AROUND), at) if at else None
        if before:
            return before[1], before[1]
        behind = self.place(at, min(len(self.old), at + AROUND))
        return (behind[0], behind[0]) if behind else None

    def place(self, start: int, end: int) -> Span | None:
        return self._kept(start, end) or self._same(start, end) or self._alike(start, end)

    def _kept(self, start: int, end: int) -> Span | None:
        if end <= self.head:
            return start, end
        shift = len(self.new) - len(self.old)
        return (start + shift, end + shift) if start >= len(self.old) - self.tail else None

    def _same(self, start: int, end: int) -> Span | None:
        words = self.old[start:end]
        places = islice(_places(self.new, words), MAX_PLACES)
        return self._best(start, end, [(at, at + len(words)) for at in places])

    def _alike(self, start: int, end: int) -> Span | None:
        expected = self._expected(start)
        first = max(0, expected - REACH)
        window = normalize_quote(self.new[first : expected + end - start + REACH])
        words = normalize_quote(self.old[start:end]).text
        if not words:
            return None
        spans = [window.span(at, at + len(words)) for at in islice(_places(window.text, words), 50)]
        return self._best(start, end, [(first + low, first + high) for low, high in spans])

    def _best(self, start: int, end: int, places: Sequence[Span]) -> Span | None:
        """Return the place with the most of the old neighbours, the nearest of several."""
        expected = self._expected(start)
        scored = [
            (self._shared(start, end, *place), -abs(place[0] - expected), place) for place in places
        ]
        if not scored:
            return None
        shared, _, place = max(scored)
        return place if shared + end - start >= MIN_SHARED else None

    def _expected(self, start: int) -> int:
        inner = max(1, len(self.old) - self.head - self.tail)
        share = min(1.0, max(0, start - self.head) / inner)
        return min(start, self.head) + round(share * (len(self.new) - self.head - self.tail))

    def _shared(self, start: int, end: int, low: int, high: int) -> int:
        before = zip(
            reversed(self.old[max(0, start - AROUND) : start]),
            reversed(self.new[max(0, low - AROUND) : low]),
            strict=False,
        )
        behind = zip(self.old[end : end + AROUND], self.new[high : high + AROUND], strict=False)
        return _run(before) + _run(behind)


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that fits, all smaller ones fitting too."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _places(text: str, words: str) -> Iterator[int]:
    at = text.find(words)
    while at >= 0:
        yield at
        at = text.find(words, at + 1)


def _run(pairs: Iterator[tuple[str, str]]) -> int:
    n = 0
    for left, right in pairs:
        if left != right:
            break
        n += 1
    return n
