"""Text, Markdown and CSV. In: bytes. Out: a parsed document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rag.core.documents import Block, ParsedDocument
from rag.stages.clean import clean_text
from rag.stages.decode import decode_text
from rag.stages.parse.markdown import markdown_blocks

# Conservative: a line of its own that is numbered like a heading and ends like one.
_HEADING = re.compile(
    r"^[ \t　]*(?:(?P<top>第[一二三四五六七八九十百零〇0-9]{1,5}[章篇部回卷]|(?:Chapter|CHAPTER)[ ]\w{1,8}\b)"
    r"|(?P<low>第[一二三四五六七八九十百零〇0-9]{1,5}[节條条款])"
    r"|(?P<deep>\d{1,2}(?:\.\d{1,2}){1,3})(?=[ \t]))"
    r"[^\n。；;,，]{0,48}(?<![.。:：,，])$",
    re.M,
)


def parse_plain(path: Path, name: str, kind: str) -> ParsedDocument:
    """Return the decoded text with its blocks; raise DocumentError when it cannot be decoded."""
    raw, encoding = decode_text(path.read_bytes(), name)
    text = clean_text(raw)
    if kind == "md":
        blocks = tuple(markdown_blocks(text))
    elif kind == "csv":
        blocks = (Block("table", 0, len(text.rstrip())),) if text.strip() else ()
    else:
        blocks = tuple(_headings(text))
    return ParsedDocument(kind, text, "plain/1", (), blocks, encoding)


def _headings(text: str) -> Iterator[Block]:
    for match in _HEADING.finditer(text):
        level = 1 if match["top"] else 2 if match["low"] else match["deep"].count(".") + 1
        yield Block("heading", match.start(), match.end(), level)
