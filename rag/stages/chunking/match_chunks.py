"""Edit preservation: manual edits of chunks matched to the next version of the text.

Nothing is lost: every chunk is kept at its passage, or at its place, or reported as a conflict.
``follow_spans`` tracks spans; ``free_ordinals`` makes room for kept chunks among the staged ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rag.stages.text.normalize import normalize_quote, occurrences

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
        places = islice(occurrences(self.new, words), MAX_PLACES)
        return self._best(start, end, [(at, at + len(words)) for at in places])

    def _alike(self, start: int, end: int) -> Span | None:
        expected = self._expected(start)
        first = max(0, expected - REACH)
        window = normalize_quote(self.new[first : expected + end - start + REACH])
        words = normalize_quote(self.old[start:end]).text
        if not words:
            return None
        spans = [
            window.span(at, at + len(words)) for at in islice(occurrences(window.text, words), 50)
        ]
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


def _run(pairs: Iterator[tuple[str, str]]) -> int:
    n = 0
    for left, right in pairs:
        if left != right:
            break
        n += 1
    return n


@dataclass(frozen=True, slots=True)
class ManualEdit:
    """A chunk that somebody edited, switched off or added, or a passage that somebody deleted.

    ``chunk_id`` None: deleted, ``key`` tells which. One that was added has an empty own part.
    """

    key: int
    char_start: int
    own_start: int
    char_end: int
    chunk_id: int | None = None

    @property
    def is_added(self) -> bool:
        """Return whether it only has a place, no passage."""
        return self.chunk_id is not None and self.own_start == self.char_end


@dataclass(frozen=True, slots=True)
class PlacedEdit:
    """A touched one and its place in the new text; ``is_same`` says that the passage is equal."""

    touched: ManualEdit
    char_start: int
    own_start: int
    char_end: int
    is_same: bool = True


@dataclass(frozen=True, slots=True)
class MatchedEdits:
    """Each touched one once: ``kept`` in order of the new text, ``homeless`` with a guess."""

    kept: tuple[PlacedEdit, ...] = ()
    homeless: tuple[PlacedEdit, ...] = ()

    @property
    def holes(self) -> tuple[tuple[int, int], ...]:
        """Return the spans, in order, that the file's own chunks must leave to these."""
        return tuple((one.own_start, one.char_end) for one in self.kept if not one.touched.is_added)


def match_chunks(old: str, new: str, touched: Sequence[ManualEdit]) -> MatchedEdits:
    """Return where each touched one lies in ``new``; kept passages never overlap.

    A passage is followed with what it repeats of the one before it, or else without.
    """
    whole = follow_spans(old, new, [(one.char_start, one.char_end) for one in touched])
    own = follow_spans(old, new, [(one.own_start, one.char_end) for one in touched])
    found: list[PlacedEdit] = []
    gone: list[ManualEdit] = []
    for one, with_overlap, alone in zip(touched, whole, own, strict=True):
        place = _placed(old, new, one, with_overlap, alone)
        if place is None:
            gone.append(one)
        else:
            found.append(place)
    kept, last = [], 0
    for place in sorted(found, key=lambda one: (one.own_start, one.char_end, one.touched.key)):
        if place.own_start >= last or place.touched.is_added:
            kept.append(place)
            last = max(last, place.char_end)
        else:
            gone.append(place.touched)
    return MatchedEdits(tuple(kept), tuple(_homeless(old, new, gone)))


def _placed(
    old: str, new: str, one: ManualEdit, whole: tuple[int, int] | None, own: tuple[int, int] | None
) -> PlacedEdit | None:
    if whole and whole[1] - whole[0] == one.char_end - one.char_start:
        start, end = whole
        is_same = new[start:end] == old[one.char_start : one.char_end]
        return PlacedEdit(one, start, start + one.own_start - one.char_start, end, is_same)
    if own:
        return PlacedEdit(one, own[0], *own, is_same=one.is_added)
    return None


def _homeless(old: str, new: str, gone: Sequence[ManualEdit]) -> list[PlacedEdit]:
    places = follow_spans(old, new, [(one.own_start, one.own_start) for one in gone])
    guesses = [
        place[0] if place else min(one.own_start, len(new))
        for one, place in zip(gone, places, strict=True)
    ]
    return [PlacedEdit(one, at, at, at, False) for one, at in zip(gone, guesses, strict=True)]


def free_ordinals(
    rows: Sequence[tuple[int, int, int]], holes: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]] | None:
    """Return an ordinal for each hole and the ordinals of the rows that lie in holes.

    ``rows`` are (ordinal, own_start, char_end), ``holes`` spans, both in order of the text. The
    ordinals are free and keep that order, where the draft left one for each hole or has rows in
    it. None when a row lies half in a hole.
    """
    starts, ends = [row[1] for row in rows], [row[2] for row in rows]
    ordinals: list[int] = []
    unwanted: list[int] = []
    last = -1
    for low, high in holes:
        first, until = bisect_right(ends, low), bisect_left(starts, high)
        inside = rows[first:until]
        if inside and (inside[0][1] < low or inside[-1][2] > high):
            return None
        unwanted += [row[0] for row in inside]
        last = max(last, rows[first - 1][0] if first else -1) + 1
        ordinals.append(last)
    return ordinals, unwanted
