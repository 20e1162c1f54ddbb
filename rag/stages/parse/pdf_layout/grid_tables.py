"""PDF grid tables: cells that strokes part, merged ones on each row and column that they reach."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from rag.stages.parse.pdf_layout.lines import Piece, join_words, new_piece, to_rows
from rag.stages.parse.pdf_layout.rules import Grid
from rag.stages.parse.pdf_layout.tables import (
    Table,
    cell_texts,
    join_lines,
    merge_lines,
    n_header_rows,
    row_starts,
)
from rag.stages.parse.pdf_layout.words import Word

MAX_COLUMNS = 5_000
# Grids of so few rows may hold more, and such of fewer cells with text are drawings.
_N_OPEN, _LEAST_TEXT = 4, 0.25


def grid_table(grid: Grid, words: Sequence[Word], order: int) -> Table | None:
    """Return what stands in a grid; None where it is a frame or a drawing."""
    n_columns, n_rows = len(grid.xs) - 1, len(grid.ys) - 1
    if n_columns > MAX_COLUMNS or n_columns * n_rows > 20 * MAX_COLUMNS:
        return None
    cells = _cells(grid, n_rows, n_columns)
    held: dict[int, list[Word]] = {}
    for word in words:
        row = bisect_right(grid.ys, word.middle) - 1
        column = bisect_right(grid.xs, (word.left + word.right) / 2) - 1
        row, column = min(max(row, 0), n_rows - 1), min(max(column, 0), n_columns - 1)
        held.setdefault(cells[row][column], []).append(word)
    n_cells = len({cell for row in cells for cell in row})
    if len(held) < 2 or len(held) < _LEAST_TEXT * n_cells:
        return None
    rows: list[list[str]] = []
    n_over = _n_over(cells)
    for number, places in enumerate(cells):
        if number and places == cells[number - 1]:
            # A stroke that means nothing: no cell begins below it.
            continue
        parts = _split_row(places, held) if n_rows <= _N_OPEN else None
        rows += parts or [_row_texts(places, held, is_head=number < n_over)]
    rows = _without_empty(rows, cells)
    if len(rows) == 0 or max(map(len, rows)) < 2:
        return None
    return Table(
        rows,
        rows[: n_header_rows(rows, n_over)],
        tuple(pairwise(grid.xs)),
        grid.xs[0],
        grid.ys[0],
        grid.xs[-1],
        grid.ys[-1],
        order,
        has_grid=True,
    )


def _n_over(cells: Sequence[Sequence[int]]) -> int:
    """Return how many rows are heads over heads: with cells over columns that a row below parts."""
    n_columns = len(cells[0])
    whole = next((at for at, row in enumerate(cells[:4]) if len(set(row)) == n_columns), 0)
    return whole if whole < len(cells) - 1 else 0


def _row_texts(places: Sequence[int], held: dict[int, list[Word]], *, is_head: bool) -> list[str]:
    """Return a row's cells; what reaches over columns stands in each only as a head."""
    return [
        ""
        if column and not is_head and places[column - 1] == cell
        else _words_text(held.get(cell, ()))
        for column, cell in enumerate(places)
    ]


def _cells(grid: Grid, n_rows: int, n_columns: int) -> list[list[int]]:
    """Return which cell each place of the grid belongs to: merged ones have one number."""
    owner = list(range(n_rows * n_columns))

    def root(at: int) -> int:
        while owner[at] != at:
            owner[at] = owner[owner[at]]
            at = owner[at]
        return at

    bars = _covered(grid.bars, grid.xs, grid.ys)
    beams = _covered(grid.beams, grid.ys, grid.xs)
    for row in range(n_rows):
        for column in range(n_columns):
            here = row * n_columns + column
            if column + 1 < n_columns and (column + 1, row) not in bars:
                owner[root(here + 1)] = root(here)
            if row + 1 < n_rows and (row + 1, column) not in beams:
                owner[root(here + n_columns)] = root(here)
    return [[root(row * n_columns + c) for c in range(n_columns)] for row in range(n_rows)]


def _covered(
    strokes: Sequence[tuple[float, float, float]],
    lines: Sequence[float],
    steps: Sequence[float],
) -> set[tuple[int, int]]:
    """Return the (line, step) pairs of the grid where a stroke is drawn."""
    found = set()
    for at, start, end in strokes:
        line = (
            min(range(len(lines)), key=lambda n: abs(lines[n] - at))
            if len(lines) < 9
            else (_nearest(lines, at))
        )
        first = max(0, bisect_right(steps, start) - 1)
        for step in range(first, len(steps) - 1):
            low, high = steps[step], steps[step + 1]
            if low > end:
                break
            if min(end, high) - max(start, low) >= 0.5 * (high - low):
                found.add((line, step))
    return found


def _nearest(lines: Sequence[float], at: float) -> int:
    right = min(bisect_right(lines, at), len(lines) - 1)
    return right if right == 0 or lines[right] - at < at - lines[right - 1] else right - 1


def _words_text(words: Sequence[Word]) -> str:
    if not words:
        return ""
    lines = []
    for row in to_rows([new_piece([word], at) for at, word in enumerate(words)]):
        lines.append(join_words([piece.words[0] for piece in row]))
    return join_lines(lines)


def _split_row(row: list[int], held: dict[int, list[Word]]) -> list[list[str]] | None:
    """Return the rows that no stroke parts: lines at one height in most of the columns."""
    if len(set(row)) < len(row):
        return None
    columns = [to_rows([new_piece([w], at) for at, w in enumerate(held.get(c, ()))]) for c in row]
    lines = sorted(map(len, columns), reverse=True)
    # Cells that are wrapped seldom have as many lines each.
    if lines[1] < 4 or lines[1] < 0.7 * lines[len(lines) // 2]:
        return None
    n_same = sum(n == lines[1] for n in lines)
    if n_same < 2 or n_same < 0.6 * len([n for n in lines if n]):
        return None
    pieces = [
        new_piece([piece.words[0] for piece in line], at)
        for at, found in enumerate(columns)
        for line in found
    ]
    rows = to_rows(pieces)
    placed: list[list[list[Piece]]] = []
    for line in rows:
        cells: list[list[Piece]] = [[] for _ in row]
        for piece in line:
            cells[piece.order].append(piece)
        placed.append(cells)
    starts = row_starts([line[0].middle for line in rows], placed)
    return cell_texts(merge_lines(placed, starts))


def _without_empty(rows: list[list[str]], cells: Sequence[Sequence[int]]) -> list[list[str]]:
    """Return the rows that hold anything, and the columns in which a cell begins."""
    columns = [
        at for at in range(len(cells[0])) if not at or any(row[at] != row[at - 1] for row in cells)
    ]
    return [[row[at] for at in columns] for row in rows if any(row)]
