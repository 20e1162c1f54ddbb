"""PDF lines: words as pieces of lines, pieces as rows of a region, and their text.

A piece ends where a gap is wider than between words, so that a table's cells are pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag.stages.parse.pdf_layout.words import DIAGONAL, Word

# Of the height of a line: a wider gap parts cells, a higher step parts lines.
CELL_GAP, FIGURE_GAP = 0.45, 0.36
_STEP = 0.5
_CLOSED = 0.32
_RAISED = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")


@dataclass(slots=True)
class Piece:
    """Words beside each other; ``order`` is its first character on the page."""

    words: list[Word]
    order: int
    left: float
    top: float
    right: float
    bottom: float

    @property
    def size(self) -> float:
        """Return the height of its letters."""
        return max(word.size for word in self.words)

    @property
    def middle(self) -> float:
        """Return how far down its middle lies."""
        return (self.top + self.bottom) / 2

    @property
    def text(self) -> str:
        """Return its words as text."""
        return join_words(self.words)


def new_piece(words: list[Word], order: int) -> Piece:
    """Return a piece of some words."""
    largest = max(words, key=lambda word: word.size)
    left, right = min(word.left for word in words), max(word.right for word in words)
    return Piece(words, order, left, largest.top, right, largest.bottom)


def to_pieces(words: Sequence[Word]) -> list[Piece]:
    """Return pieces of lines in the order of the stream."""
    lines: list[list[Word]] = []
    for word in words:
        if lines and _is_beside(lines[-1], word):
            lines[-1].append(word)
        else:
            lines.append([word])
    pieces: list[Piece] = []
    for line in lines:
        for part in _parted(line):
            pieces.append(new_piece(part, part[0].first))
    return pieces


def _is_beside(line: list[Word], word: Word) -> bool:
    last = line[-1]
    if word.turn != last.turn:
        return False
    if word.is_raised or word.turn == DIAGONAL:
        return True
    if last.is_raised and len(line) > 1:
        last = next((one for one in reversed(line) if not one.is_raised), last)
    step = abs(word.middle - last.middle)
    if step > _STEP * min(word.size, last.size):
        return False
    return word.left > line[-1].right - 0.7 * max(word.size, last.size)


def _parted(line: list[Word]) -> list[list[Word]]:
    """Return the line cut where a gap is wider than its others."""
    if len(line) == 1 or line[0].turn == DIAGONAL:
        return [line]
    gaps = [right.left - left.right for left, right in pairwise(line)]
    apart = sorted(gap for gap, word in zip(gaps, line[1:], strict=True) if word.is_apart)
    size = max(word.size for word in line)
    usual = apart[len(apart) // 4] if len(apart) > 3 else 0.0
    limit = max(CELL_GAP * size, 1.9 * usual if usual < CELL_GAP * size else 0.0)
    if apart and sum(is_wide(word.text) and len(word.text) == 1 for word in line) > 0.7 * len(line):
        # Han characters that are set apart, as in a title.
        limit = max(limit, min(1.7 * apart[len(apart) // 4], 1.5 * size))
    parts = [[line[0]]]
    for gap, word in zip(gaps, line[1:], strict=True):
        if gap > (min(limit, FIGURE_GAP * size) if _are_figures(parts[-1][-1], word) else limit):
            parts.append([word])
        else:
            parts[-1].append(word)
    return parts


def _are_figures(last: Word, word: Word) -> bool:
    """Return whether two figures stand beside each other, as prose seldom has them."""
    is_figure = last.text[-1].isdigit() or (last.text[-1] in "%‰" and len(last.text) > 1)
    return is_figure and (word.text[0].isdigit() or word.text[0] in "-–+$€£¥")


def is_wide(character: str) -> bool:
    """Return whether a character is as wide as it is high, as Han characters are."""
    return character > "\u2e7f"


def join_words(words: Sequence[Word]) -> str:
    """Return the words of one line; Han characters that are only set apart are closed up."""
    close = _closing_gap(words)
    out = [_written(words[0])]
    for last, word in pairwise(words):
        gap = (word.left - last.right) / max(word.size, last.size, 0.1)
        is_han = is_wide(last.text[-1]) and is_wide(word.text[0])
        is_single = len(last.text) == len(word.text) == 1
        is_closed = not word.is_apart or (
            gap <= close
            and not (word.has_blank and close == _CLOSED)
            and (is_han or (is_single and close > _CLOSED))
        )
        out.append(("" if is_closed else " ") + _written(word))
    return "".join(out)


def _written(word: Word) -> str:
    return word.text.translate(_RAISED) if word.is_raised else word.text


def _closing_gap(words: Sequence[Word]) -> float:
    """Return up to which gap, in heights, Han characters of this line belong together."""
    gaps: list[float] = []
    n_touching = 0
    for last, word in pairwise(words):
        if is_wide(last.text[-1]) and is_wide(word.text[0]):
            gaps.append((word.left - last.right) / max(word.size, last.size, 0.1))
    for word in words:
        n_touching += max(0, sum(map(is_wide, word.text)) - 1)
    if len(gaps) < 2 or len(gaps) < 1.5 * n_touching:
        return _CLOSED
    return max(_CLOSED, 1.35 * sorted(gaps)[len(gaps) // 3])


def to_rows(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces as rows from top to bottom, each from left to right."""
    rows: list[list[Piece]] = []
    middle = size = 0.0
    for piece in sorted(pieces, key=lambda one: one.middle):
        if rows and abs(piece.middle - middle) <= _STEP * min(size, piece.size):
            rows[-1].append(piece)
        else:
            rows.append([piece])
            middle, size = piece.middle, piece.size
    for row in rows:
        row.sort(key=lambda one: one.left)
    return rows


def count_words(pieces: Sequence[Piece]) -> float:
    """Return how many words there are; two Han characters count as one."""
    text = " ".join(piece.text for piece in pieces)
    return len(text.split()) + sum(map(is_wide, text)) / 2
