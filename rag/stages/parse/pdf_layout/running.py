"""Running heads and feet: rows at the edge of a page that come again on the pages around it.

A row is one where the same words stand at the same height; numbers may count on with the pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag.stages.parse.pdf_layout.lines import Piece, to_rows
from rag.stages.parse.pdf_layout.page import Layer

# So many pages before and after one are looked at, and so many rows at each edge.
AROUND, N_ROWS = 8, 4
_FEW_PAGES = 3
# Of the height of a row: how far its place may differ, and how far from the text it is at least.
_SHIFT, _APART, _WIDE, _OTHER = 0.8, 1.25, 3, 0.08
_DIGITS = re.compile(r"\d+")
_ROMAN = re.compile(r"[-–— ]*([ivxlc]{1,7}|[IVXLC]{1,7})[-–— .]*$")
_ROMAN_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_MAX_LENGTH = 300


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """A row near the edge of a page: its words without numbers, its numbers, and its height."""

    words: str
    numbers: tuple[int, ...]
    middle: float
    size: float
    pieces: tuple[tuple[str, tuple[int, ...]], ...]
    is_apart: bool
    is_head_of_cells: bool


@dataclass(frozen=True, slots=True)
class Edges:
    """The rows at the edges of a page, from the outermost on, and its other layers' words."""

    top: tuple[EdgeRow, ...]
    bottom: tuple[EdgeRow, ...]
    n_rows: int
    layers: tuple[tuple[int, str], ...]


NO_EDGES = Edges((), (), 0, ())


def page_edges(layers: Sequence[Layer]) -> Edges:
    """Return what may run through the pages."""
    main = main_layer(layers)
    if main is None:
        return Edges((), (), 0, ())
    rows = to_rows(main.pieces)
    down, up = rows[: N_ROWS + 1], rows[: -N_ROWS - 2 : -1]
    # Wider steps are not those from line to line.
    steps = sorted(
        step
        for a, b in pairwise(rows)
        if (step := b[0].middle - a[0].middle) < _WIDE * max(a[0].size, b[0].size)
    )
    apart = _APART * steps[len(steps) // 2] if steps else 0.0
    return Edges(
        _edge_rows(main, down, apart),
        _edge_rows(main, up, apart),
        len(rows) + sum(len(table.rows) for table in main.tables),
        tuple((layer.turn, _words(layer.pieces)) for layer in layers if layer is not main),
    )


def main_layer(layers: Sequence[Layer]) -> Layer | None:
    """Return the words of a page that are turned as most of them are."""
    return max(layers, key=lambda one: len(one.pieces) + 9 * len(one.tables), default=None)


def _edge_rows(layer: Layer, rows: Sequence[Sequence[Piece]], apart: float) -> tuple[EdgeRow, ...]:
    found: list[EdgeRow] = []
    for at, row in enumerate(rows[:N_ROWS]):
        size = max(piece.size for piece in row)
        middle = row[0].middle
        # A grid further out than a row makes the row part of the text.
        if found and _is_between(layer, found[-1].middle, middle):
            break
        following = rows[at + 1] if at + 1 < len(rows) else None
        step = abs(following[0].middle - middle) if following else 9 * size
        is_head = following is not None and len(row) > 1 and step < 2 * size
        found.append(
            EdgeRow(
                *_pattern(_words(row)),
                middle,
                size,
                tuple(_pattern(_words([piece])) for piece in row),
                _is_apart(step, apart, size, max(p.size for p in following) if following else 0),
                is_head and _are_cells(row, following or ()),
            )
        )
    return tuple(found)


def _is_apart(step: float, apart: float, size: float, beside: float) -> bool:
    """Return whether a row is further from the next than lines are, or set in another size."""
    is_other = abs(size - beside) > _OTHER * max(size, beside)
    return step > _APART * size and (step > apart or is_other)


def _is_between(layer: Layer, one: float, other: float) -> bool:
    low, high = sorted((one, other))
    return any(low < table.top and table.bottom < high for table in layer.tables)


def _are_cells(row: Sequence[Piece], following: Sequence[Piece]) -> bool:
    """Return whether two rows have pieces below each other, as a table's."""
    n_below = sum(any(a.left < b.right and b.left < a.right for b in following) for a in row)
    return len(following) > 1 and n_below > 1


def _words(pieces: Sequence[Piece]) -> str:
    return " ".join(piece.text for piece in pieces)[:_MAX_LENGTH]


def _pattern(text: str) -> tuple[str, tuple[int, ...]]:
    roman = _ROMAN.match(text)
    if roman:
        return text.replace(roman[1], "#"), (_roman(roman[1].lower()),)
    numbers = tuple(int(digits[:9]) for digits in _DIGITS.findall(text))
    return _DIGITS.sub("#", text), numbers


def _roman(letters: str) -> int:
    values = [_ROMAN_DIGITS[letter] for letter in letters]
    return sum(
        -value if any(later > value for later in values[at + 1 : at + 2]) else value
        for at, value in enumerate(values)
    )


def running_rows(pages: Sequence[Edges], at: int) -> tuple[int, int, frozenset[int]]:
    """Return how many rows at the top and at the bottom of page ``at`` run through the pages.

    The third are the turns of the layers that do, such as a watermark. ``pages`` are the pages
    around it in order; nothing runs where nothing else would be left.
    """
    page = pages[at]
    n_top = _n_running([p.top for p in pages], at)
    n_bottom = _n_running([p.bottom for p in pages], at)
    if n_top + n_bottom >= page.n_rows and len(pages) * 2 <= 3 * sum(
        p.n_rows <= n_top + n_bottom for p in pages
    ):
        n_top = n_bottom = 0
    turns = frozenset(
        layer[0]
        for layer in page.layers
        if layer[1] and sum(layer in p.layers for p in pages) >= _needed(pages)
    )
    return n_top, n_bottom, turns


def take_rows(layers: Sequence[Layer], n_top: int, n_bottom: int) -> list[str]:
    """Take rows off the top and the bottom of a page and return what they say."""
    main = main_layer(layers)
    if main is None or not n_top + n_bottom:
        return []
    rows = to_rows(main.pieces)
    taken = [*rows[:n_top], *rows[len(rows) - n_bottom :]]
    gone = {id(piece) for row in taken for piece in row}
    main.pieces = [piece for piece in main.pieces if id(piece) not in gone]
    return [_words(row) for row in taken]


def _needed(pages: Sequence[Edges]) -> int:
    return 2 if len(pages) <= _FEW_PAGES else 3


def _n_running(pages: Sequence[tuple[EdgeRow, ...]], at: int) -> int:
    n_running = 0
    for depth, row in enumerate(pages[at]):
        if row.is_head_of_cells or not _is_running(row, pages, at):
            break
        n_running = depth + 1
    # What runs stands apart from the text, or text that comes again would run.
    while n_running and not pages[at][n_running - 1].is_apart:
        n_running -= 1
    return n_running or int(len(pages) > _FEW_PAGES and _is_numbered(pages, at))


def _is_numbered(pages: Sequence[tuple[EdgeRow, ...]], at: int) -> bool:
    """Return whether the outermost row of a page says its number, as those around it do."""
    if not pages[at] or not pages[at][0].numbers or pages[at][0].is_head_of_cells:
        return False
    row = pages[at][0]
    same = [
        number
        for number, rows in enumerate(pages)
        if rows
        and rows[0].words == row.words
        and _counts_on(row.numbers, rows[0].numbers, number - at)
        and (number == at or rows[0].numbers != row.numbers)
    ]
    return len(same) >= _FEW_PAGES


def _is_running(row: EdgeRow, pages: Sequence[tuple[EdgeRow, ...]], at: int) -> bool:
    needed = 2 if len(pages) <= _FEW_PAGES else 3
    others = [
        (number - at, other)
        for number, rows in enumerate(pages)
        for other in rows
        if number != at and abs(other.middle - row.middle) <= _SHIFT * row.size
    ]
    same = {
        step
        for step, other in others
        if other.words == row.words and _counts_on(row.numbers, other.numbers, step)
    }
    if len(same) + 1 >= needed:
        return True
    # Beside a page's number may stand what changes with the chapter.
    numbered = {
        step
        for step, other in others
        for words, numbers in row.pieces
        if numbers
        and len(numbers) == 1
        and any(w == words and n == (numbers[0] + step,) for w, n in other.pieces)
    }
    return len(numbered) + 1 >= needed + 1


def _counts_on(mine: tuple[int, ...], others: tuple[int, ...], step: int) -> bool:
    return len(mine) == len(others) and all(
        b - a in (0, step) for a, b in zip(mine, others, strict=True)
    )
