"""Splitter ``rows``: tables and sheets, one row a chunk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.pack import pack_parts

_ROW = re.compile(r"[^\n\f]+")
_RULE = re.compile(r"[\s|:+=-]*")


@register("splitter")
class RowSplitter:
    """Splitter for tables and sheets."""

    name, label = "rows", "Table rows"
    description = (
        "One row of a table a chunk, with the table's header. Text beside tables is cut "
        "as under General text."
    )

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield a span for each row; the first has the header in its text, the others carry it."""
        return pack_parts(request, row_parts(request))


def row_parts(
    request: SplitRequest, *, has_header: Callable[[str], bool] = bool
) -> Iterator[tuple[int, str]]:
    """Yield where the rows of tables begin, and what follows them; the first joins its header.

    Where ``has_header`` says no of a table's first row it is a row as others are.
    """
    text, outline = request.document.text, request.outline
    for table in outline.blocks("table", request.start, request.end):
        start, end = outline.header(table)
        head = text[start:end]
        n_joined = 1 if has_header(head) else 0
        low = end if n_joined else start
        before = outline.table_lead(table)
        yield max(request.start, before), ""
        for row in _ROW.finditer(text, low, table.end):
            if _RULE.fullmatch(row[0]):
                continue
            if n_joined:
                n_joined -= 1
            elif row.start() > start:
                yield row.start(), ""
        yield table.end, ""
