"""Wide tables as text: bands of columns, so that a chunk holds a header and a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag.stages.parse.table_grid import table_row

# The rows that tell what a table looks like.
_SAMPLE = 50
# About how many tokens the header of a band may have, and half of those that it has with a row, so
# that a chunk holds both.
_HEAD = 90
_FEW_COLUMNS = 3
# How far to the right the names of rows may stand, and how many of them differ.
_MAX_KEY, _DISTINCT = 3, 0.8
# Of a cell's borders.
_BORDER = 2
_WIDE = re.compile(r"[^\x00-\u2fff]")


def table_texts(rows: Sequence[Sequence[str]], n_head: int = 1) -> Iterator[str]:
    """Yield a table as text; of a wide one bands of columns, each with the first."""
    width = max(map(len, rows), default=0)
    bands = column_bands(rows, n_head) if width > _FEW_COLUMNS else []
    if len(bands) < 2:
        yield "\n".join(map(table_row, rows))
        return
    for columns in bands:
        yield "\n".join(table_row(row[n] if n < len(row) else "" for n in columns) for row in rows)


def column_bands(rows: Sequence[Sequence[str]], n_head: int) -> list[list[int]]:
    """Return which columns stand together, so that a header and a row fit a chunk.

    Each band begins with the columns that say what a row is about.
    """
    width = max(map(len, rows), default=0)
    costs = [_column_cost(rows, n_head, column) for column in range(width)]
    if width <= _FEW_COLUMNS or _fits(costs):
        return [list(range(width))]
    key = list(range(_n_key(rows, n_head)))
    bands = [key]
    for column in range(len(key), width):
        if len(bands[-1]) > len(key) and not _fits([costs[n] for n in (*bands[-1], column)]):
            bands.append(key)
        bands[-1] = [*bands[-1], column]
    return bands


def _n_key(rows: Sequence[Sequence[str]], n_head: int) -> int:
    """Return how many columns name a row: those up to the first that tells nearly all apart."""
    body = rows[n_head : n_head + _SAMPLE]
    for column in range(_MAX_KEY):
        texts = {row[column] for row in body if column < len(row) and row[column]}
        if len(texts) >= _DISTINCT * len(body):
            return column + 1
    return 1


def _column_cost(rows: Sequence[Sequence[str]], n_head: int, column: int) -> tuple[int, int]:
    """Return about how many tokens a column has in the header and in a usual row."""
    body = sorted(_n_tokens(row, column) for row in rows[n_head : n_head + _SAMPLE])
    head = sum(_n_tokens(row, column) for row in rows[:n_head])
    return head, body[len(body) // 2] if body else 0


def _fits(costs: Sequence[tuple[int, int]]) -> bool:
    head, body = sum(head for head, _ in costs), sum(body for _, body in costs)
    return head <= _HEAD and body <= 2 * _HEAD - head


def _n_tokens(row: Sequence[str], column: int) -> int:
    text = row[column] if column < len(row) else ""
    n_wide = len(_WIDE.findall(text))
    return _BORDER + n_wide + (len(text) - n_wide + 2) // 3
