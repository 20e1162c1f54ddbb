"""Edit preservation: manual edits of chunks matched to the next version of the text.

Nothing is lost: every chunk is kept at its passage, or at its place, or reported as a conflict.
``free_ordinals`` makes room for kept chunks among the staged ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rag.stages.chunking.follow_spans import follow_spans


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
