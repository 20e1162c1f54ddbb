"""Text, Markdown and CSV. In: bytes. Out: a parsed document."""

from __future__ import annotations

from pathlib import Path

from rag.core.documents import Block, ParsedDocument
from rag.stages.clean import clean_text
from rag.stages.decode import decode_text
from rag.stages.parse.markdown import markdown_blocks
from rag.stages.parse.headings import numbered_headings


def parse_plain(path: Path, name: str, kind: str) -> ParsedDocument:
    """Return the decoded text with its blocks; raise DocumentError when it cannot be decoded."""
    raw, encoding = decode_text(path.read_bytes(), name)
    lost = raw.count("\ufffd")
    text = clean_text(raw)
    del raw
    if kind == "md":
        blocks = tuple(markdown_blocks(text))
    elif kind == "csv":
        body = text.strip("\n")
        start = text.find(body)
        blocks = (Block("table", start, start + len(body)),) if body.strip() else ()
    else:
        blocks = tuple(numbered_headings(text))
    warnings = (f"Damaged characters: {lost}, shown as \ufffd.",) if lost else ()
    return ParsedDocument(kind, text, "plain/1", (), blocks, encoding, warnings=warnings)
