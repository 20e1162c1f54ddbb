"""Tables of a sheet: title lines, header rows, merged cells, and wide ones in bands of columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.stages.parse.pdf_layout.tables import FIGURE, figure_share
from rag.stages.parse.spreadsheet.sheet import Merge, SheetRow
from rag.stages.parse.table_grid import MAX_SPAN

# The rows that tell what a table looks like.
_SAMPLE = 50
_MAX_TITLES = 20
_MAX_HEAD = 3


@dataclass(frozen=True, slots=True)
class SheetTable:
    """Lines above a table, and its rows, of which the first ``n_head`` are the header.

    ``columns`` are their places in the sheet.
    """

    titles: tuple[str, ...]
    rows: list[list[str]]
    n_head: int
    columns: tuple[int, ...]


def n_title_lines(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows stand above the header: those with few cells of the usual number."""
    n_filled = [sum(map(bool, row)) for row in rows[:_SAMPLE]]
    usual = Counter(n for n in n_filled if n > 1).most_common(1)
    if not usual:
        return 0
    width = usual[0][0]
    # A header may lack a name, above all that of its first column.
    half = [at for at, n in enumerate(n_filled) if n >= max(2, width / 2)]
    full = [at for at in half if n_filled[at] >= 0.75 * width or not rows[at][0]]
    first = full[0] if full else 0
    if half[:1] != [first] and figure_share(rows[first]):
        first = half[0]
    return first if first <= _MAX_TITLES else 0


def sheet_tables(rows: Sequence[SheetRow], merges: Sequence[Merge]) -> Iterator[SheetTable]:
    """Yield the tables of a sheet.

    A gap between rows parts two tables where the lower one has titles or a header of its own.
    """
    across: dict[int, list[Merge]] = defaultdict(list)
    for merge in merges:
        if merge.right > merge.left:
            across[merge.top].append(merge)
    above: SheetTable | None = None
    for part in _parts(rows):
        table = _table(part, across)
        if above and not table.titles and (more := _rest_of(above, table)):
            above.rows.extend(more)
            continue
        if above:
            yield above
        above = table
    if above:
        yield above


def _parts(rows: Sequence[SheetRow]) -> Iterator[list[SheetRow]]:
    """Yield rows that no empty ones part; titles stay with what is below them."""
    ends = [at for at, row in enumerate(rows) if row.is_apart and at]
    start = 0
    for end in [*ends, len(rows)]:
        below = rows[start : end + _SAMPLE]
        if end < len(rows) and n_title_lines(_grid(below, _used(below))) >= end - start:
            continue
        if start < end:
            yield list(rows[start:end])
        start = end


def _used(rows: Sequence[SheetRow]) -> list[int]:
    return sorted({column for row in rows for column in row.cells})


def _grid(rows: Sequence[SheetRow], columns: Sequence[int]) -> list[list[str]]:
    return [[row.cells.get(column, "") for column in columns] for row in rows]


def _table(part: Sequence[SheetRow], across: dict[int, list[Merge]]) -> SheetTable:
    columns = _used(part)
    grid = _grid(part, columns)
    n_titles = n_title_lines(grid)
    titles = tuple(" ".join(filter(None, row)) for row in grid[:n_titles])
    body = grid[n_titles:]
    n_head = 1
    while n_head < min(_MAX_HEAD, len(body)) and across[part[n_titles + n_head - 1].number]:
        if figure_share(body[n_head]) > 0.4:
            break
        n_head += 1
    for at in range(n_head):
        for merge in across[part[n_titles + at].number]:
            _fill_across(body[at], columns, merge)
    while n_head > 1 and body[n_head - 1] == body[n_head - 2]:
        del body[n_head - 1]
        n_head -= 1
    return SheetTable(titles, body, n_head, tuple(columns))


def _rest_of(above: SheetTable, table: SheetTable) -> list[list[str]]:
    """Return the rows below a gap as such of the table above; none where they have a header."""
    if not set(table.columns) <= set(above.columns):
        return []
    head, rest = table.rows[0], table.rows[1:_SAMPLE]
    figures = [
        column for column in range(len(head)) if figure_share([row[column] for row in rest]) > 0.6
    ]
    if figures and not any(FIGURE.match(head[column]) for column in figures):
        return []
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return [[row.get(column, "") for column in above.columns] for row in rows]


def _fill_across(row: list[str], columns: Sequence[int], merge: Merge) -> None:
    reached = [at for at, column in enumerate(columns) if merge.left <= column <= merge.right][
        :MAX_SPAN
    ]
    for at in reached[1:]:
        row[at] = row[at] or row[reached[0]]
