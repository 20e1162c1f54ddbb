"""Parser for plain text, Markdown and CSV."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from rag.core.documents import Block, Notice, ParsedDocument
from rag.stages.detect.clean import clean_text
from rag.stages.detect.decode import decode_text
from rag.stages.parse.headings import numbered_headings
from rag.stages.parse.markdown import markdown_blocks

# A hundred megabytes of short lines would have millions, each larger than its line.
MAX_BLOCKS = 200_000


def parse_plain(path: Path, name: str, kind: str, encoding: str = "") -> ParsedDocument:
    """Return the decoded text with its blocks; raise DocumentError when it cannot be decoded."""
    raw, found = decode_text(path.read_bytes(), name, encoding)
    text = clean_text(raw)
    del raw
    if kind == "md":
        blocks = tuple(islice(markdown_blocks(text), MAX_BLOCKS))
    elif kind == "csv":
        blocks = _table(text)
    else:
        blocks = tuple(islice(numbered_headings(text), MAX_BLOCKS))
    lost = text.count("\ufffd")
    warnings = [Notice("Damaged characters: {n}, shown as \ufffd.", n=lost)] if lost else []
    if len(blocks) == MAX_BLOCKS:
        warnings.append(
            Notice("Only the first {n} headings and paragraphs are told apart.", n=MAX_BLOCKS)
        )
    title = _title(text, blocks) if kind == "md" else ""
    return ParsedDocument(kind, text, "plain/3", (), blocks, found, title, tuple(warnings))


def _table(text: str) -> tuple[Block, ...]:
    """Return the rows as one table whose first line is its header."""
    start = len(text) - len(text.lstrip("\n"))
    if text.startswith("sep=", start):  # Excel's note on the separator, no row.
        start = text.find("\n", start) + 1 or start
    end = len(text.rstrip())
    return (Block("table", start, end),) if start < end else ()


def _title(text: str, blocks: tuple[Block, ...]) -> str:
    first = next((block for block in blocks if block.kind == "heading"), None)
    is_title = first is not None and first.level == 1
    return text[first.start : first.end].strip("# \t")[:200] if first and is_title else ""
