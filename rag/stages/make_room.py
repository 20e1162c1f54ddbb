"""Room in a draft for chunks that stay. In: where both lie. Out: ordinals, and rows not wanted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def make_room(
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
