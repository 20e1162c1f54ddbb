"""A window of a file's text, page by page, with its chunks. In: text and spans. Out: pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rag import models


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A stretch of text; ``chunk`` is given where one begins, ``parity`` is its colour.

    ``is_first`` is the first of what is marked.
    """

    text: str
    is_marked: bool = False
    is_first: bool = False
    chunk: models.Chunk | None = None
    parity: int | None = None
    is_off: bool = False


def cut_sections(
    text: str, start: int, pages: Sequence[dict[str, Any]], mark: tuple[int, int],
    chunks: Sequence[models.Chunk],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the parts of the window, one a page, each in pieces: by chunk, and marked or not.

    ``text`` begins at the character ``start`` of the file; the pieces joined are the text again.
    """
    end = start + len(text)
    whole: list[dict[str, Any]] = [
        {"number": None, "label": "", "start": start, "end": end, "has_text_layer": True}
    ]
    sections = []
    for page in pages or whole:
        # A page without text has no character of its own, but is a page all the same.
        is_empty_here = page["start"] == page["end"] and start <= page["start"] <= end
        if not is_empty_here and (page["end"] <= start or page["start"] >= end):
            continue
        first, last = max(page["start"], start), min(page["end"], end)
        marked = max(first, min(mark[0], last)), max(first, min(mark[1], last))
        borders = {cut for one in chunks for cut in (one.own_start, one.char_end)}
        cuts = sorted({first, *marked, last, *(cut for cut in borders if first < cut < last)})
        pieces = [
            _piece(text[left - start : right - start], left, marked, chunks)
            for left, right in pairwise(cuts)
        ]
        sections.append({**page, "pieces": pieces, "is_continued": page["start"] < start})
    return sections


def _piece(
    text: str, left: int, marked: tuple[int, int], chunks: Sequence[models.Chunk]
) -> TextPiece:
    is_marked = marked[0] <= left < marked[1]
    for number, chunk in enumerate(chunks):
        if chunk.own_start <= left < chunk.char_end:
            begins = chunk if left == chunk.own_start else None
            return TextPiece(
                text, is_marked, left == marked[0], begins, number % 2, not chunk.enabled
            )
    return TextPiece(text, is_marked, left == marked[0])
