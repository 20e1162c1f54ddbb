"""PDF aligned tables: pieces of lines that stand below each other, with white between columns."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from rag.stages.parse.pdf_layout.lines import CELL_GAP, Piece, count_words, new_piece, to_rows
from rag.stages.parse.pdf_layout.tables import (
    Table,
    cell_text,
    cell_texts,
    merge_lines,
    n_header_rows,
    row_starts,
)
from rag.stages.parse.pdf_layout.words import Word

Row = list[Piece]
Beam = tuple[float, float, float]
# Of the height of a line: rows further apart are not of one table.
_FAR, _CLOSE = 2.6, 1.9
_GUTTER = 0.42
# Of the same: how far a justified line may end from the edge and begin, and its widest blank.
_SLACK, _INDENT, _BLANK = 0.6, 2.0, 1.8
_REACH = 12
_ODD_ROWS = 0.12
_N_WRAPPED = 12
_BULLET = re.compile(r"(?:[-–—•·*●■▪◦○►➢✓]|[(（\[]?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)）、\]])$")


def aligned_tables(
    pieces: Sequence[Piece], beams: Sequence[Beam]
) -> Iterator[tuple[Table, list[Piece]]]:
    """Yield each table that no grid draws, with its pieces; level strokes may part its rows."""
    rows = to_rows(pieces)
    start = 0
    while start < len(rows):
        stop = _run(rows, start)
        if stop - start >= 2:
            while start and _is_head(rows[start - 1], rows[start:stop]):
                start -= 1
            above = start
            if not _are_loose_lines(rows, above, stop):
                yield from _tables(rows[above:stop], beams)
        start = max(stop, start + 1)


def _are_loose_lines(rows: Sequence[Row], start: int, stop: int) -> bool:
    """Return whether rows are justified lines amid others, whose wide blanks meet by chance."""
    begin, edge = min(row[0].left for row in rows), max(row[-1].right for row in rows)
    held = rows[start:stop]
    for row in held:
        gaps = (right.left - left.right for left, right in pairwise(row))
        if (
            row[-1].right < edge - _SLACK * row[0].size
            or max(gaps, default=0) > _BLANK * row[0].size
        ):
            return False
    if any(row[0].left > begin + _INDENT * row[0].size for row in held):
        return False
    step = median(below[0].middle - above[0].middle for above, below in pairwise(held))
    around = [(start - 1, start), (stop - 1, stop)]
    return any(
        above >= 0
        and below < len(rows)
        and rows[above][-1].right >= edge - _SLACK * rows[above][0].size
        and abs(rows[below][0].middle - rows[above][0].middle - step) < 0.1 * step
        for above, below in around
    )


def _is_head(row: Row, below: Sequence[Row]) -> bool:
    """Return whether a row alone, close above others, stands over some of their columns."""
    if len(row) > 1 or row[0].size > 1.15 * below[0][0].size or len(below[0]) < 2:
        return False
    step, columns, piece = below[0][0].middle - row[0].middle, _columns(below), row[0]
    if step > _CLOSE * piece.size or len(columns) < 2:
        return False
    if piece.left > columns[1][0] - piece.size and piece.right < columns[-1][1] + piece.size:
        return len(columns) > 2
    # The first line of a head that is wrapped, nearer to the next than rows are to each other.
    steps = sorted(b[0].middle - a[0].middle for a, b in pairwise(below))
    first, last = _span(piece, columns)
    is_wrapped = step < 1.4 * piece.size and step < 0.9 * steps[(3 * len(steps)) // 4]
    return is_wrapped and first == last and piece.right < columns[first][1] + piece.size


def _run(rows: Sequence[Row], start: int) -> int:
    """Return the end of the run of rows from ``start`` on that have cells, or go on with one."""
    if len(rows[start]) < 2:
        return start
    stop = start + 1
    n_single = 0
    for at in range(start + 1, len(rows)):
        step = rows[at][0].middle - rows[at - 1][0].middle
        size = max(piece.size for piece in rows[at])
        if step > _FAR * size:
            break
        n_single = n_single + 1 if len(rows[at]) < 2 else 0
        if n_single > _N_WRAPPED:
            break
        if not n_single:
            stop = at + 1
        elif not _is_within(rows[at][0], rows[start:stop]):
            break
    # Lines that go on with cells of the last row.
    while stop < len(rows) and stop > start and len(rows[stop]) == 1:
        piece = rows[stop][0]
        step = piece.middle - rows[stop - 1][0].middle
        before = next(row for row in reversed(rows[:stop]) if len(row) > 1)
        # Below the first cell stands a line of prose, unless it is nearer than lines are.
        above = before if step < 0.8 * piece.size else before[1:]
        is_below = any(abs(piece.left - one.left) < piece.size for one in above)
        if step > 1.35 * piece.size or not is_below:
            break
        stop += 1
    return stop


def _is_within(piece: Piece, rows: Sequence[Row]) -> bool:
    """Return whether a piece alone in its row reaches over no more than one cell of the last."""
    last = next(row for row in reversed(rows) if len(row) > 1)
    return sum(piece.left < one.right and one.left < piece.right for one in last) <= 1


def _tables(rows: list[Row], beams: Sequence[Beam]) -> Iterator[tuple[Table, list[Piece]]]:
    columns = _columns(rows)
    if len(columns) < 2:
        return
    odd = next((at for at, row in enumerate(rows) if at and _crosses(row, columns)), None)
    if odd is not None and len(rows[odd]) == 1:
        # A line of prose between two tables, or below the first.
        yield from _tables_if(rows[:odd], beams)
        yield from _tables_if(rows[odd + 1 :], beams)
        return
    placed = [_placed(row, columns) for row in rows]
    columns = _without_heads_alone(placed, columns)
    if not _is_table(rows, placed, columns):
        return
    yield _table(rows, placed, columns, beams), [piece for row in rows for piece in row]


def _tables_if(rows: list[Row], beams: Sequence[Beam]) -> Iterator[tuple[Table, list[Piece]]]:
    while rows and len(rows[0]) < 2:
        rows = rows[1:]
    if len(rows) >= 2:
        yield from _tables(rows, beams)


def _columns(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Return from where to where the columns reach: what lies between is white in the rows."""
    n_odd = int(_ODD_ROWS * len(rows)) if len(rows) > 6 else int(len(rows) > 3)
    size = median(piece.size for row in rows for piece in row)
    events: list[tuple[float, int]] = []
    for row in rows:
        for piece in row:
            events += [(piece.left, 1), (piece.right, -1)]
    events.sort()
    columns: list[tuple[float, float]] = []
    depth, begin = 0, 0.0
    for at, step in events:
        before, depth = depth, depth + step
        if before <= n_odd < depth:
            begin = at
        elif depth <= n_odd < before:
            if columns and begin - columns[-1][1] < _GUTTER * size:
                columns[-1] = (columns[-1][0], at)
            else:
                columns.append((begin, at))
    return columns


def _without_heads_alone(
    placed: list[list[list[Piece]]], columns: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the columns without those that only a centred head stands in, beside its cells."""
    at = 0
    while at < len(columns) and len(columns) > 2:
        filled = [n for n, row in enumerate(placed) if row[at]]
        sides = [
            (abs(columns[side][0 if side > at else 1] - columns[at][1 if side > at else 0]), side)
            for side in (at - 1, at + 1)
            if 0 <= side < len(columns) and not any(placed[n][side] for n in filled)
        ]
        if not sides or len(filled) > max(1, 0.1 * len(placed)):
            at += 1
            continue
        side = min(sides)[1]
        for row in placed:
            row[side] = row[side] + row[at]
            del row[at]
        low, high = sorted((columns[side], columns[at]))
        columns = [*columns[: min(at, side)], (low[0], high[1]), *columns[max(at, side) + 1 :]]
    return columns


def _crosses(row: Row, columns: Sequence[tuple[float, float]]) -> bool:
    return any(_span(piece, columns)[1] > _span(piece, columns)[0] for piece in row)


def _span(piece: Piece, columns: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """Return the first and last column that a piece reaches into."""
    slack = 0.3 * piece.size
    starts = [low for low, _ in columns]
    first = max(0, bisect_right(starts, piece.left + slack) - 1)
    last = max(0, bisect_right(starts, piece.right - slack) - 1)
    if piece.left > columns[first][1] - slack and first + 1 < len(columns):
        # It begins in the white behind a column: it belongs to the next, or to both around.
        nearer = columns[first + 1][0] - piece.right < piece.left - columns[first][1]
        if last == first and nearer:
            return first + 1, first + 1
        first = first if last == first else first + 1
    return first, max(first, last)


def _placed(row: Row, columns: Sequence[tuple[float, float]]) -> list[list[Piece]]:
    """Return the pieces of each column; one that reaches over several is cut where it can be."""
    cells: list[list[Piece]] = [[] for _ in columns]
    for piece in row:
        first, last = _span(piece, columns)
        if first == last:
            cells[first].append(piece)
            continue
        for part in _cut(piece, columns):
            at, end = _span(part, columns)
            for column in range(at, end + 1):
                cells[column].append(part)
    return cells


def _cut(piece: Piece, columns: Sequence[tuple[float, float]]) -> list[Piece]:
    """Return the piece cut between words where one column ends and another begins."""
    parts: list[list[Word]] = [[piece.words[0]]]
    for last, word in pairwise(piece.words):
        gap = (word.left - last.right) / max(word.size, 0.1)
        is_between = any(
            low < (last.right + word.left) / 2 < high
            for low, high in ((a[1], b[0]) for a, b in pairwise(columns))
        )
        if is_between and gap > 0.35 * CELL_GAP:
            parts.append([word])
        else:
            parts[-1].append(word)
    return [new_piece(part, piece.order) for part in parts]


def _is_table(
    rows: Sequence[Row], placed: list[list[list[Piece]]], columns: Sequence[tuple[float, float]]
) -> bool:
    filled = [sum(map(bool, row)) for row in placed]
    n_full = sum(n >= 2 for n in filled)
    if n_full < 2 or (n_full < 3 and max(filled) < 3):
        return False
    if n_full < len(rows) / (_N_WRAPPED / 2):
        return False
    first = [cell_text(row[0]) for row in placed if row[0]]
    if len(columns) == 2 and sum(bool(_BULLET.match(text)) for text in first) >= 0.7 * len(first):
        return False
    return not _is_prose(placed, columns)


def _is_prose(placed: list[list[list[Piece]]], columns: Sequence[tuple[float, float]]) -> bool:
    """Return whether the columns are those of a page: most lines are full of words."""
    n_prose = 0
    for at, (low, high) in enumerate(columns):
        lines = [row[at] for row in placed if row[at]]
        if len(lines) < 4:
            continue
        full = [cell for cell in lines if cell[-1].right - cell[0].left > 0.8 * (high - low)]
        wordy = [cell for cell in lines if count_words(cell) >= 5]
        n_prose += len(full) >= 0.6 * len(lines) and len(wordy) >= 0.6 * len(lines)
    return n_prose >= 2


def _table(
    rows: list[Row],
    placed: list[list[list[Piece]]],
    columns: Sequence[tuple[float, float]],
    beams: Sequence[Beam],
) -> Table:
    middles = [row[0].middle for row in rows]
    borders = _borders(rows, beams)
    starts = _starts_by_border(middles, borders) if borders else row_starts(middles, placed)
    is_over = len(rows) > 2 and len(rows[0]) < len(rows[1]) and all(starts[1:3])
    if is_over and all(placed[1][1:]):
        placed[0] = _over_columns(rows[0], columns)
    cells = cell_texts(merge_lines(placed, starts))
    head = cells[: n_header_rows(cells, int(is_over and "" not in cells[1][1:]))]
    pieces = [piece for row in rows for piece in row]
    return Table(
        cells,
        head,
        tuple(columns),
        min(piece.left for piece in pieces),
        min(piece.top for piece in pieces),
        max(piece.right for piece in pieces),
        max(piece.bottom for piece in pieces),
        min(piece.order for piece in pieces),
    )


def _over_columns(row: Row, columns: Sequence[tuple[float, float]]) -> list[list[Piece]]:
    """Return the cells of a head over heads: each piece over the columns that it is amid of."""
    cells: list[list[Piece]] = [[] for _ in columns]
    middles = [(low + high) / 2 for low, high in columns]
    nearest = [
        min(range(len(row)), key=lambda at: abs(row[at].left + row[at].right - 2 * middle))
        for middle in middles
    ]
    for at, piece in enumerate(row):
        first, last = _span(piece, columns)
        held = [c for c in range(first and 1, len(columns)) if nearest[c] == at] or [first]
        low, high = min(*held, first), max(*held, last)
        a, b = _amid(piece, columns, (low, high), (first, last))
        for column in range(a, b + 1):
            cells[column].append(piece)
    return cells


def _amid(
    piece: Piece,
    columns: Sequence[tuple[float, float]],
    most: tuple[int, int],
    least: tuple[int, int],
) -> tuple[int, int]:
    """Return the columns that a piece is amid of: all that are nearest, or the best of them."""
    middle = (piece.left + piece.right) / 2

    def off(a: int, b: int) -> float:
        return abs((columns[a][0] + columns[b][1]) / 2 - middle)

    n_columns = most[1] - most[0] + 1
    step = (columns[most[1]][1] - columns[most[0]][0]) / n_columns
    if off(*most) < step / 2 or n_columns > _REACH:
        return most
    spans = [(a, b) for a in range(most[0], least[0] + 1) for b in range(least[1], most[1] + 1)]
    return min(spans, key=lambda span: off(*span))


def _borders(rows: Sequence[Row], beams: Sequence[Beam]) -> list[float]:
    """Return how far down the strokes are that part the rows, if they part most of them."""
    left, right = min(row[0].left for row in rows), max(row[-1].right for row in rows)
    top, bottom = rows[0][0].middle, rows[-1][0].middle
    ys = [
        y
        for y, low, high in beams
        if top < y < bottom and min(high, right) - max(low, left) > 0.6 * (right - left)
    ]
    middles = [row[0].middle for row in rows]
    n_groups = len({bisect_right(ys, middle) for middle in middles})
    step = min((b - a for a, b in pairwise(middles)), default=0.0)
    is_each = n_groups >= 4 and all(
        b - a < (_N_WRAPPED + 1) * max(step, 1.0) for a, b in pairwise([top, *ys, bottom])
    )
    n_first = sum(row[0].left < left + row[0].size for row in rows)
    return ys if is_each and n_groups >= 0.5 * n_first else []


def _starts_by_border(middles: Sequence[float], borders: Sequence[float]) -> list[bool]:
    groups = [bisect_right(borders, middle) for middle in middles]
    return [True, *(b > a for a, b in pairwise(groups))]
