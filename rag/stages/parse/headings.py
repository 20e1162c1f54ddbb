"""Heading detection in plain text by its own numbering."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag.core.documents import Block

_NUMBER = r"[ ]?[一二三四五六七八九十百零〇0-9]{1,5}[ ]?"
_LINE = re.compile(
    r"(?:^|(?<=\f))[ \t\u3000]*(?:"
    rf"(?P<top>第{_NUMBER}[编章篇部回卷]|(?:Chapter|CHAPTER|Part|PART)[ ][\dIVXLC]{{1,6}}\b)"
    rf"|(?P<second>第{_NUMBER}[节節]|(?:Section|Article)[ ]\d{{1,3}}\b(?!\.\d))"
    rf"|(?P<item>第{_NUMBER}[条條款])"
    r"|(?P<list>[一二三四五六七八九十]{1,3}、)"
    r"|(?P<deep>\d{1,2}(?:\.\d{1,2}){1,3})\.?(?=[ \t\u3000\u4e00-\u9fff])"
    r"|(?P<whole>\d{1,2})(?:\.[ \t\u3000]*|[ \t\u3000]+)(?=[A-Z\u00c0-\u00de\u4e00-\u9fff]))"
    # No full stop within: a sentence may begin with a number too.
    r"(?P<title>[^\n\f。；;,，！？!?]{0,48})(?<![.:：、])(?=[\n\f]|\Z)",
    re.M,
)
# A line of a table of contents ends with leaders or blanks and a page number.
_CONTENTS = re.compile(r"[.…·_]{3,}|\t|\S\s+\d{1,4}\s*$")
_LETTER = re.compile(r"[^\W\d_]")
_LEVELS = {"top": 1, "second": 2, "item": 3, "list": 2}


def numbered_headings(text: str) -> Iterator[Block]:
    """Yield lines numbered like 第一章, 一、, Chapter 2, 1.1 or 7., in order; they do not overlap.

    Numbers with points must count on from each other, or they are figures; a whole number must
    stand alone and be the next one, with parts of it or of the one before, or it is an item.
    """
    before: tuple[int, ...] = ()
    matches = [match for match in _LINE.finditer(text) if not _CONTENTS.search(match["title"])]
    for at, match in enumerate(matches):
        title = match["title"]
        group = next(name for name in (*_LEVELS, "deep", "whole") if match[name])
        if group in ("deep", "list", "whole") and not _LETTER.search(title):
            continue
        if group in ("list", "whole") and not _stands_alone(text, match.start()):
            continue
        level = _LEVELS.get(group, 0)
        if group in ("deep", "whole"):
            number = tuple(map(int, match[group].split(".")))
            if group == "whole" and not _is_part(before, number[0], matches[at + 1 :]):
                continue
            if not _counts_on(before, number):
                continue
            before, level = number, len(number)
        start = match.end() - len(match.group().lstrip(" \t\u3000"))
        yield Block("heading", start, start + len(text[start : match.end()].rstrip()), level)


def _is_part(before: tuple[int, ...], number: int, following: Sequence[re.Match[str]]) -> bool:
    """Return whether a whole number is that of a part: the next one, where parts have parts."""
    if before and number != before[0] + 1:
        return False
    first = next((match["deep"] for match in following if match["deep"]), "")
    return first == f"{number}.1" or (bool(before) and (len(before) > 1 or not first))


def _counts_on(before: tuple[int, ...], number: tuple[int, ...]) -> bool:
    """Return whether ``number`` may follow: one deeper, the next, or the first of another part."""
    if not all(number):
        return False
    if not before or number[0] > before[0]:
        return set(number[1:]) <= {1}
    shared = next((n for n, (a, b) in enumerate(zip(before, number, strict=False)) if a != b), None)
    if shared is None:
        return len(number) > len(before) and set(number[len(before) :]) == {1}
    # A heading or two may have hidden behind their punctuation.
    return 0 < number[shared] - before[shared] <= 3 and set(number[shared + 1 :]) <= {1}


def _stands_alone(text: str, start: int) -> bool:
    return start == 0 or text[max(0, start - 2) : start] == "\n\n" or text[start - 1] == "\f"
