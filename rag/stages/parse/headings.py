"""Headings that a plain text numbers itself. In: text. Out: blocks, where there is little doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.core.documents import Block

_NUMBER = r"[一二三四五六七八九十百零〇0-9]{1,5}"
_LINE = re.compile(
    rf"^[ \t　]*(?:(?P<top>第{_NUMBER}[编章篇部回卷]|(?:Chapter|CHAPTER|Part|PART)[ ][\dIVXLC]{{1,6}}\b)"
    rf"|(?P<second>第{_NUMBER}[节節]|(?:Section|Article)[ ]\d{{1,3}}\b(?!\.\d))"
    rf"|(?P<item>第{_NUMBER}[条條款])"
    r"|(?P<list>[一二三四五六七八九十]{1,3}、)"
    r"|(?P<deep>\d{1,2}(?:\.\d{1,2}){1,3})(?=[ \t　\u4e00-\u9fff]))"
    # No full stop, and no page number at its end: sentences and tables of contents look alike.
    r"(?P<title>[^\n\f。；;,，！？!?]{0,48})(?<![.。:：,，、])$",
    re.M,
)
_CONTENTS = re.compile(r"[.…·]{3,}|\t|\S\s+\d{1,4}\s*$")
_LETTER = re.compile(r"[^\W\d_]")


def numbered_headings(text: str, start: int = 0, end: int | None = None) -> Iterator[Block]:
    """Yield lines of ``text[start:end]`` numbered like 第一章, 一、, Chapter 2 or 1.1, in order."""
    for match in _LINE.finditer(text, start, len(text) if end is None else end):
        title, kind = match["title"], match.lastgroup
        group = next(g for g in ("top", "second", "item", "list", "deep") if match[g])
        if _CONTENTS.search(title) or kind is None:
            continue
        if group in ("deep", "list") and not _LETTER.search(title):
            continue
        if group == "list" and not _stands_alone(text, match.start()):
            continue
        level = {"top": 1, "second": 2, "item": 3, "list": 2}.get(group)
        level = level or min(6, match[group].count(".") + 1)
        begin = match.end() - len(match.group().lstrip(" \t　"))
        yield Block("heading", begin, begin + len(text[begin : match.end()].rstrip()), level)


def _stands_alone(text: str, start: int) -> bool:
    return start == 0 or text[max(0, start - 2) : start].strip(" ") in ("\n\n", "\f")
