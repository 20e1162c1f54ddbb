"""Parser for settings in sections: INI, TOML and Java properties, line by line as written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.stages.detect.decode import decode_text
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.data.tree import ARROW

_SECTION = re.compile(r"[ \t]*\[{1,2}[ \t]*([^\[\]\n]{1,300}?)[ \t]*\]{1,2}[ \t]*(?:[#;].*)?$")
# The parts of a section's name: quoted, or between dots; git writes [remote "origin"].
_PART = re.compile(r'"([^"]*)"|\'([^\']*)\'|([^."\']+)')
_ESCAPE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
_LONG_TEXT = re.compile(r'"""|\'\'\'')


def parse_sections(path: Path, name: str, kind: str, encoding: str = "") -> ParsedDocument:
    """Return the lines below the paths of their sections."""
    text, found = decode_text(path.read_bytes(), name, encoding)
    if kind == "properties":
        text = _ESCAPE.sub(_unescaped, text)
    canonical = CanonicalText()
    for line in _blocks(text, kind):
        if isinstance(line, tuple):
            canonical.add("heading", ARROW.join(line), 2)
        else:
            canonical.add("code", line)
    return canonical.finish(kind, "sections/1", encoding=found)


def _blocks(text: str, kind: str) -> Iterator[str | tuple[str, ...]]:
    """Yield the path of each section, and the lines below it that no empty one parts."""
    lines: list[str] = []
    quote = ""
    for line in text.splitlines():
        section = None if quote else _SECTION.match(line)
        if kind == "toml":
            quote = _open_quote(line, quote)
        is_end = section is not None and kind != "properties"
        if (is_end or not (line.strip() or quote)) and lines:
            yield "\n".join(lines)
            lines = []
        if section is not None and is_end:
            # What comments a section stands above it, and is found with it all the same.
            yield _path(section[1], kind)
        elif line.strip() or quote:
            lines.append(line.rstrip())
    if lines:
        yield "\n".join(lines)


def _path(title: str, kind: str) -> tuple[str, ...]:
    parts = ["".join(part).strip() for part in _PART.findall(title)]
    return tuple(filter(None, parts)) if kind == "toml" or '"' in title else (title,)


def _open_quote(line: str, quote: str) -> str:
    """Return the quotation mark of a text over several lines that is open behind a line."""
    for mark in _LONG_TEXT.findall(line):
        quote = "" if mark == quote else quote or mark
    return quote


def _unescaped(match: re.Match[str]) -> str:
    """Return the letters of escapes; two of them may be the halves of one."""
    units = bytes.fromhex("".join(match[0].split("\\u")))
    return units.decode("utf-16-be", "replace")
