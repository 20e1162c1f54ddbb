"""Chunk borders drawn over a text. In: a window of it and spans. Out: pieces for a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag.core.documents import Chunk


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text in one chunk, in none, or where a chunk repeats the end of the one before.

    ``number`` counts from 1 and is given where the chunk begins; ``parity`` is its colour.
    """

    text: str
    parity: int | None = None
    number: int | None = None
    n_tokens: int = 0
    is_repeated: bool = False
    is_kept: bool = False


def draw_borders(
    text: str, window: tuple[int, int], chunks: Sequence[Chunk], kept: Sequence[tuple[int, int]]
) -> list[Piece]:
    """Return the pieces of ``text[window]``, in order; together they are that text."""
    start, end = window
    near = [
        (number, chunk) for number, chunk in enumerate(chunks, start=1)
        if chunk.char_start < end and chunk.char_end > start
    ]  # fmt: skip
    holes = [span for span in kept if span[0] < end and span[1] > start]
    cuts = {start, end}
    for _, chunk in near:
        cuts |= {chunk.char_start, chunk.own_start, chunk.char_end}
    for span in holes:
        cuts |= set(span)
    places = sorted(cut for cut in cuts if start <= cut <= end)
    return [_piece(text, first, last, near, holes) for first, last in pairwise(places)]


def _piece(
    text: str, first: int, last: int, near: Sequence[tuple[int, Chunk]],
    holes: Sequence[tuple[int, int]],
) -> Piece:  # fmt: skip
    words = text[first:last]
    if any(low <= first < high for low, high in holes):
        return Piece(words, is_kept=True)
    repeated = any(chunk.char_start <= first < chunk.own_start for _, chunk in near)
    for number, chunk in near:
        if chunk.own_start <= first < chunk.char_end:
            begins = first == chunk.own_start
            return Piece(words, number % 2, number if begins else None, chunk.token_count, repeated)
    return Piece(words, is_repeated=repeated)
