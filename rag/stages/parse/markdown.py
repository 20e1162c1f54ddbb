"""Blocks of Markdown. In: text. Out: headings, paragraphs, tables, lists and code by position."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.core.documents import Block

_LINE = re.compile(r"[^\n\f]*(?:\n|\f|$)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+\S")
_LIST = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\S")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def markdown_blocks(text: str, start: int = 0, end: int | None = None) -> Iterator[Block]:
    """Yield the blocks of ``text[start:end]`` in order; they do not overlap."""
    end = len(text) if end is None else end
    kind, begin, last, level, fence = "", start, start, 0, ""
    for match in _LINE.finditer(text, start, end):
        line = match.group()
        if not line:
            continue
        now = _kind_of(line, kind, fence)
        if fence_mark := _FENCE.match(line):
            if not fence:
                fence = fence_mark.group(1)
            elif fence_mark.group(1).startswith(fence[0] * len(fence)):
                fence, last = "", match.start() + len(line.rstrip())
                yield Block("code", begin, last)
                kind = ""
                continue
        if now != kind or now == "heading":
            if kind:
                yield Block(kind, begin, last, level if kind == "heading" else 0)
            kind, begin = now, match.start()
        if now == "heading":
            level = len(line.lstrip()) - len(line.lstrip().lstrip("#"))
        if now:
            last = match.start() + len(line.rstrip())
    if kind:
        yield Block(kind, begin, last, level if kind == "heading" else 0)


def _kind_of(line: str, before: str, fence: str) -> str:
    if fence or _FENCE.match(line):
        return "code"
    if not line.strip():
        return ""
    if _HEADING.match(line):
        return "heading"
    if line.lstrip().startswith("|"):
        return "table"
    if _LIST.match(line) or (before == "list" and line.startswith((" ", "\t"))):
        return "list"
    return "paragraph"
