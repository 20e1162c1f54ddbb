"""Table quotes: cells that answer a question, in words, with their header and row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rag.core.ports import ChatRequest
from rag.stages.citing.citation_markers import quote_marker
from rag.stages.citing.locate import find_abridged, locate_quote, quoted_parts
from rag.stages.query.table_lookup import TableAnswer, look_up_cells
from rag.stages.text.normalize import normalize_quote
from rag.stages.text.tables import TableRow, TextTable, read_tables

# Of the question's words the names of row and column must explain so many.
MIN_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class TableQuote:
    """Cells of a passage's table; ``text`` is the passage."""

    doc_id: str
    text: str
    answer: TableAnswer

    def marked(self, *, is_chinese: bool) -> str:
        """Return what the cells say, with the marker that quotes their header and row."""
        return quote_marker(
            self.doc_id, self._quote(), claim=self.answer.in_words(is_chinese=is_chinese)
        )

    def _quote(self) -> str:
        """Return header and row as they stand, the rows between them left out."""
        header, row = self.answer.table.header, self.answer.row
        line = self.text[row.start : row.end]
        if not header:
            return line
        head = self.text[header[0].start : header[-1].end]
        source = normalize_quote(self.text)
        if not self.text[header[-1].end : row.start].strip():
            whole = self.text[header[0].start : row.end]
            return (
                whole if locate_quote(normalize_quote(whole).text, source, is_exact=True) else line
            )
        abridged = f"{head} … {line}"
        _, is_whole = find_abridged(quoted_parts(normalize_quote(abridged).text), source)
        return abridged if is_whole else line


def passage_tables(request: ChatRequest) -> Iterator[tuple[int, TextTable]]:
    """Yield the tables of a request's passages, each with its passage's place."""
    for rank, (_, text) in enumerate(request.passages):
        carried = request.table_headers[rank] if rank < len(request.table_headers) else ""
        for table in read_tables(text, carried):
            yield rank, table


def quote_cells(request: ChatRequest, doc_ids: list[str]) -> list[TableQuote]:
    """Return the cells that a question asks for by their names, those that explain it best."""
    found = [
        TableQuote(doc_ids[rank], request.passages[rank][1], answer)
        for rank, table in passage_tables(request)
        for answer in look_up_cells(request.question, table)
        if answer.share >= MIN_SHARE
    ]
    best = max((one.answer.share for one in found), default=0.0)
    kept: dict[tuple[str, ...], TableQuote] = {}
    for one in found:
        if one.answer.share >= best:
            # Where chunks overlap a row stands in both.
            kept.setdefault(one.answer.row.cells, one)
    return list(kept.values())


def quote_row(doc_id: str, text: str, table: TextTable, row: TableRow) -> TableQuote:
    """Return all that a row says, by the columns."""
    key = next((at for at, cell in enumerate(row.cells) if cell), 0)
    places = tuple(at for at, cell in enumerate(row.cells) if cell and at != key)
    whole = TableAnswer(table, row, key, places or (key,), 0.0)
    return TableQuote(doc_id, text, whole if places else replace(whole, key=0))
