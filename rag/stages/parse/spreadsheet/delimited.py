"""Parser for CSV: records as rows of one table, with title lines above it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from rag.core.documents import Block, Notice, ParsedDocument
from rag.stages.detect.clean import clean_text
from rag.stages.detect.decode import decode_text
from rag.stages.parse.column_bands import column_bands
from rag.stages.parse.spreadsheet.tables import n_title_lines
from rag.stages.parse.table_grid import table_row

# The first wins where several part all lines alike: figures have commas in them.
_DELIMITERS = "\t;,|"
# A quotation mark that never ends would make the rest of a file one cell.
_MAX_CELL = 200_000
_MAX_STRAY = 200
_SAMPLE_LINES = 200
_SAMPLE_CHARS = 100_000
_DECLARED = re.compile(r"\s*sep=(.)[ \t]*(?:\n|$)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+$")


def parse_delimited(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the records as a table; raise DocumentError when it cannot be decoded."""
    raw, found = decode_text(path.read_bytes(), name, encoding)
    text = clean_text(raw).replace("\f", " ")
    del raw
    lost = text.count("\ufffd")
    warnings = [Notice("Damaged characters: {n}, shown as \ufffd.", n=lost)] if lost else []
    declared = _DECLARED.match(text)
    text = text[declared.end() if declared else 0 :]
    delimiter = declared[1] if declared else _delimiter(text[:_SAMPLE_CHARS])
    records = _records(text, delimiter)
    first = list(islice(records, _SAMPLE_LINES))
    n_titles = n_title_lines(first)
    titles = "\n".join(" ".join(filter(None, row)) for row in first[:n_titles])
    parts = [("paragraph", titles)] if titles else []
    plain = _plain_table(text, delimiter, first[n_titles:])
    tables = [plain] if plain else _tables(first[n_titles:], records)
    parts += [("table", part) for part in tables]
    blocks: list[Block] = []
    start = 0
    for kind, part in parts:
        blocks.append(Block(kind, start, start + len(part)))
        start += len(part) + 2
    body = "\n\n".join(part for _, part in parts)
    return ParsedDocument("csv", body, "csv/2", (), tuple(blocks), found, "", tuple(warnings))


def _tables(first: Sequence[list[str]], rest: Iterator[list[str]]) -> Iterator[str]:
    """Yield the records as text: one table, or one for each band of columns of a wide one."""
    bands = column_bands(first, 1)
    if len(bands) == 1:
        yield "\n".join(map(table_row, chain(first, rest)))
        return
    texts: list[list[str]] = [[] for _ in bands]
    for row in chain(first, rest):
        for columns, lines in zip(bands, texts, strict=True):
            lines.append(table_row(row[n] if n < len(row) else "" for n in columns))
    yield from map("\n".join, texts)


def _plain_table(text: str, delimiter: str, first: Sequence[list[str]]) -> str:
    """Return a table whose lines are its rows as they stand, empty for any other.

    Most are: a hundred thousand rows are written at once, five times as fast as cell by cell.
    """
    if len(first) < _SAMPLE_LINES or len(column_bands(first, 1)) > 1 or '"' in text:
        return ""
    begin = text.find("\n".join(map(delimiter.join, first)))
    sign = re.escape(delimiter)
    uneven = (
        rf"[|\f\r{'' if delimiter == chr(9) else chr(9)}]|  | {sign}|{sign} | \n|\n |\n{sign}*\n"
    )
    body = text[begin:].rstrip("\n")
    if begin < 0 or re.search(uneven, body) or body[-1:] in (" ", delimiter):
        return ""
    return "| " + body.replace(delimiter, " | ").replace("\n", " |\n| ") + " |"


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the records that hold anything, their cells without white space around them."""
    csv.field_size_limit(_MAX_CELL)
    lines = [match[0] for match in _LINE.finditer(text)]
    for record in _read(lines, delimiter):
        cells = [cell.strip() for cell in record]
        if any(cells):
            yield cells


def _delimiter(sample: str) -> str:
    """Return what parts most lines into equally many cells."""
    lines = [match[0] for match in islice(_LINE.finditer(sample), _SAMPLE_LINES)]
    best, best_share = "\t", 0.5
    for delimiter in _DELIMITERS:
        widths = Counter(len(record) for record in _read(lines, delimiter) if any(record))
        n_records = widths.total()
        widths.pop(1, None)
        share = max(widths.values(), default=0) / max(1, n_records)
        if share > best_share:
            best, best_share = delimiter, share
    return best


def _read(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the records; where a quotation mark never ends, or none, it is a mere sign."""
    at = n_stray = 0
    while at < len(lines):
        if n_stray > _MAX_STRAY:
            yield lines[at].rstrip("\n").split(delimiter)
            at += 1
            continue
        source = (lines[n] for n in range(at, len(lines)))
        reader = csv.reader(source, delimiter=delimiter, strict=True)
        begin = at
        try:
            for record in reader:
                at = begin + reader.line_num
                yield record
        except csv.Error:
            n_stray += 1
            line = lines[at].rstrip("\n")
            at += 1
            yield _stray(line, delimiter)


def _stray(line: str, delimiter: str) -> list[str]:
    """Return a line as a record of its own, its quotation marks read as far as they go."""
    if line.count('"') % 2 or len(line) > _MAX_CELL:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter))
