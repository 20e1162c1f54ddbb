"""Parser for plain text and Markdown: headings, tables, lists, code by position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath

from rag.core.documents import Block, Notice, ParsedDocument
from rag.stages.detect.clean import clean_text
from rag.stages.detect.decode import decode_text
from rag.stages.parse.headings import numbered_headings

_LINE = re.compile(r"[^\n\f]*(?:\n|\f|$)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+\S|[ \t]*$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_LIST = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\S")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_GRID = re.compile(r" {0,3}\+[-=:+]{2,}\+?[ \t]*$")
_DELIMITERS = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:[^\n]*\n){1,60}?(?:---|\.\.\.)[ \t]*(?:\n|$)")
_CODE = frozenset(
    {".py", ".pyi", ".js", ".mjs", ".ts", ".tsx", ".jsx", ".java", ".kt", ".scala", ".c", ".h"}
    | {".cc", ".cpp", ".hpp", ".cs", ".go", ".rs", ".rb", ".php", ".pl", ".lua", ".r", ".swift"}
    | {".m", ".sh", ".bash", ".ps1", ".bat", ".sql", ".css", ".scss", ".vue", ".dart", ".ex"}
)
# The time that begins a line of a log, as syslog, web servers and libraries write it.
_LOG_LINE = re.compile(
    r"\W{0,2}(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b|"
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|[\d.]{7,15} \S+ \S+ \[|"
    r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b[:\] ])"
)
_LOG_SAMPLE, _LOG_LINES = 20_000, 5
# A hundred megabytes of short lines would have millions, each larger than its line.
MAX_BLOCKS = 200_000


@dataclass(slots=True)
class _Open:
    """The block that is being read."""

    kind: str
    start: int
    end: int
    level: int = 0
    n_lines: int = 1

    def close(self) -> Block:
        return Block(self.kind, self.start, self.end, self.level)


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of ``text`` in order; they do not overlap."""
    position = 0
    if matter := _FRONT_MATTER.match(text):
        position = matter.end()
        yield Block("code", 0, len(matter.group().rstrip()))
    block: _Open | None = None
    fence = ""
    for match in _LINE.finditer(text, position):
        line, start = match.group().rstrip(), match.start()
        end = start + len(line)
        mark = _FENCE.match(line)
        if fence and block:
            block.end = end if line else block.end
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip("`~ "):
                yield block.close()
                block, fence = None, ""
            continue
        if block and block.kind == "paragraph" and _revise(block, line, text):
            if block.kind == "heading":
                yield block.close()
                block = None
            else:
                block.end = end
            continue
        kind = _kind_of(line, block.kind if block else "")
        if block and (kind != block.kind or kind == "heading"):
            yield block.close()
            block = None
        if not kind:
            continue
        if block:
            block.end, block.n_lines = end, block.n_lines + 1
        else:
            level = len(line.lstrip()) - len(line.lstrip().lstrip("#")) if kind == "heading" else 0
            block = _Open(kind, start, end, level)
        fence = mark[1] if mark else ""
    if block:
        yield block.close()


def _revise(block: _Open, line: str, text: str) -> bool:
    """Make a paragraph of one line what the line below it says: a heading or a table's head."""
    if block.n_lines > 1:
        return False
    if _DELIMITERS.match(line) and "|" in text[block.start : block.end]:
        block.kind = "table"
        return True
    underline = _UNDERLINE.match(line)
    if underline:
        block.kind, block.level = "heading", 1 if underline[1][0] == "=" else 2
        return True
    return False


def _kind_of(line: str, before: str) -> str:
    if not line.strip():
        return ""
    if _FENCE.match(line):
        return "code"
    if _HEADING.match(line):
        return "heading"
    if line.lstrip().startswith("|") or _GRID.match(line) or (before == "table" and "|" in line):
        return "table"
    if _LIST.match(line) or (before == "list" and line.startswith((" ", "\t"))):
        return "list"
    return "paragraph"


def parse_plain(path: Path, name: str, kind: str, encoding: str = "") -> ParsedDocument:
    """Return the decoded text with its blocks; raise DocumentError when it cannot be decoded."""
    raw, found = decode_text(path.read_bytes(), name, encoding)
    text = clean_text(raw)
    del raw
    if kind == "md":
        blocks = tuple(islice(markdown_blocks(text), MAX_BLOCKS))
    elif _is_code(name, text):
        blocks = (Block("code", 0, len(text.rstrip())),)
    else:
        blocks = tuple(islice(numbered_headings(text), MAX_BLOCKS))
    lost = text.count("\ufffd")
    warnings = [Notice("Damaged characters: {n}, shown as \ufffd.", n=lost)] if lost else []
    if len(blocks) == MAX_BLOCKS:
        warnings.append(
            Notice("Only the first {n} headings and paragraphs are told apart.", n=MAX_BLOCKS)
        )
    title = _title(text, blocks) if kind == "md" else ""
    return ParsedDocument(kind, text, "plain/4", (), blocks, found, title, tuple(warnings))


def _is_code(name: str, text: str) -> bool:
    """Return whether a text is a program, by its name, or a log, by the beginnings of its lines."""
    if PurePath(name).suffix.lower() in _CODE:
        return True
    lines = [line for line in text[:_LOG_SAMPLE].split("\n")[:-1] if line.strip()]
    n_stamped = sum(bool(_LOG_LINE.match(line)) for line in lines)
    return n_stamped >= max(_LOG_LINES, 0.5 * len(lines))


def _title(text: str, blocks: tuple[Block, ...]) -> str:
    first = next((block for block in blocks if block.kind == "heading"), None)
    is_title = first is not None and first.level == 1
    return text[first.start : first.end].strip("# \t")[:200] if first and is_title else ""
