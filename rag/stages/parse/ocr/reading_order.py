"""Reading order of recognized words: column by column, as the layout reads them."""

from __future__ import annotations

from collections.abc import Sequence

from rag.core.ocr.scans import ScannedWord
from rag.stages.parse.pdf_layout.columns import to_regions
from rag.stages.parse.pdf_layout.lines import to_pieces
from rag.stages.parse.pdf_layout.words import Word, turned

_SAME_ROW = 0.5


def reading_order(words: Sequence[ScannedWord]) -> list[ScannedWord]:
    """Return the words in the order in which people read them, those turned alike together."""
    ordered: list[ScannedWord] = []
    for turn in sorted({word.turn for word in words}):
        held = [word for word in words if word.turn == turn]
        placed = to_layout(held)
        by_place = {word.first: scanned for word, scanned in placed}
        for region in to_regions(to_pieces([word for word, _ in placed])):
            for piece in region:
                ordered += [by_place[word.first] for word in piece.words]
    return ordered


def to_layout(words: Sequence[ScannedWord]) -> list[tuple[Word, ScannedWord]]:
    """Return words of the layout beside those recognized, from row to row."""
    placed: list[tuple[Word, ScannedWord]] = []
    for scanned in words:
        box = turned(scanned.turn, (scanned.left, -scanned.bottom, scanned.right, -scanned.top))
        placed.append((Word(scanned.text, *box, scanned.turn, 0, 0, True, True), scanned))
    ordered = [pair for row in _rows(placed) for pair in row]
    at = 0
    for word, _ in ordered:
        word.first, word.last = at, at + len(word.text) - 1
        at += len(word.text) + 1
    return ordered


def _rows(placed: Sequence[tuple[Word, ScannedWord]]) -> list[list[tuple[Word, ScannedWord]]]:
    rows: list[list[tuple[Word, ScannedWord]]] = []
    middle = size = 0.0
    for pair in sorted(placed, key=lambda one: (one[0].turn, one[0].middle)):
        word = pair[0]
        is_new = not rows or rows[-1][0][0].turn != word.turn
        if is_new or word.middle - middle > _SAME_ROW * min(size, word.size):
            rows.append([])
            middle, size = word.middle, word.size
        rows[-1].append(pair)
    for row in rows:
        row.sort(key=lambda one: one[0].left)
    return rows
