"""Headings known by their numbers. In: text. Out: where 第三章, 第二节 and 1.2 begin a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.core.documents import Block

# Conservative: a line of its own that is numbered like a heading and ends like one.
_HEADING = re.compile(
    r"^[ \t\u3000]*(?:"
    r"(?P<top>第[ ]?[一二三四五六七八九十百零〇0-9]{1,5}[ ]?[章篇部回卷]|(?:Chapter|CHAPTER)[ ]\w{1,8}\b)"
    r"|(?P<low>第[ ]?[一二三四五六七八九十百零〇0-9]{1,5}[ ]?[节節条條款])"
    r"|(?P<deep>\d{1,2}(?:\.\d{1,2}){1,3})(?=[ \t]))"
    r"(?P<rest>[^\n\f。；;,，]{0,48})(?<![.。:：,，])(?=[\n\f]|\Z)",
    re.M,
)
# A line of a table of contents ends with leaders or blanks and a page number.
_CONTENTS = re.compile(r"(?:[.…·_]{2,}|[ \t]{2,}|\t)\s*\d{1,4}\s*$")
_FIGURES = re.compile(r"[\d\s.,%+\-–/]*")


def numbered_titles(text: str, *, decimals: bool = True) -> Iterator[Block]:
    """Yield heading blocks in order; ``decimals`` says whether 1.2 counts as a number."""
    for match in _HEADING.finditer(text):
        if _CONTENTS.search(match.group()):
            continue
        if match["deep"]:
            # A row of figures is no title.
            if not decimals or _FIGURES.fullmatch(match["rest"]):
                continue
            level = match["deep"].count(".") + 1
        else:
            level = 1 if match["top"] else 2
        start = match.start() + len(match.group()) - len(match.group().lstrip())
        yield Block("heading", start, match.start() + len(match.group().rstrip()), level)
