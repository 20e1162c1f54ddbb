"""Sentence and clause segmentation for Chinese and English, as code point offsets.

No boundary ever parts a character from its accents or joiners.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_CLOSING = "”’」』）》】〉〕］\"')\\]"
_HAN = "\u3400-\u9fff\uf900-\ufaff"
# A line break counts with all white space after it, so that sentences touch.
_END = re.compile(
    rf"[。！？｡][。！？!?…｡]*[{_CLOSING}]*\s*"
    rf"|[!?]+[{_CLOSING}]*(?:\s+|$|(?=[{_HAN}]))"
    rf"|(?P<point>\.+[{_CLOSING}]*(?:\s+|$)|(?<=[{_HAN}])\.(?=[{_HAN}]))"
    rf"|…+[{_CLOSING}]*(?:\s+|$|(?=[{_HAN}“「『]))"
    r"|(?P<line>[\n\r\f\v\x85\u2028\u2029]\s*)"
)
_CLAUSE = re.compile(rf"[；;][{_CLOSING}]*\s*|[，、：][{_CLOSING}]*|[,:](?=\s)\s*|\s\|(?=\s)")
# The word before a point: after these it ends no sentence.
_SHORT = re.compile(
    rf"(?:^|[\s(\[“\"'。！？｡…{_CLOSING}])(?:"
    r"(?i:dr|mr|mrs|ms|prof|st|no|nos|fig|figs|eq|sec|ch|vol|pp?|vs|cf|ca|approx|inc|ltd|dept|ed|eds|temp|max|min|incl|resp|est|e\.g|i\.e|al)"
    r"|[A-Z](?:\.[A-Z])*)$"
)
_LETTERS = re.compile(r"[^\W\d_]*$")
_LIST_NUMBER = re.compile(r"(?:^|[\n\f])\s*(?:[(（]?(?:\d{1,3}|[A-Za-z]))$")
_BULLET = re.compile(
    r"[-*+•·●■#>|]|\(?\d{1,3}[.)、]|[（(]?[一二三四五六七八九十]{1,3}[、)）]|第.{1,5}[章节条]"
)
_TERMINAL = frozenset("。！？!?.:：;；…")
_JOINER = "\u200d"
_MODIFIERS = ("\U0001f3fb", "\U0001f3ff")
_FLAGS = ("\U0001f1e6", "\U0001f1ff")
_INNER = ".,'’-"
_LINE_CHARS = 400
_MIN_WRAP_COLUMNS = 40


def sentence_ends(text: str, start: int = 0, end: int | None = None) -> Iterator[int]:
    """Yield the end of each sentence in ``text[start:end]``, in order; the last one is ``end``.

    Sentences touch: the white space after one belongs to it. Line breaks end a sentence, unless
    the line was plainly wrapped within one.
    """
    end = len(text) if end is None else end
    last = start
    for match in _END.finditer(text, start, end):
        at, stop = match.span()
        if stop >= end:
            break
        if match["point"] and not _ends_at_point(text, max(start, at - 40), match):
            continue
        if match["line"] and _is_wrapped(text, start, at, stop, end):
            continue
        if _joins(text, stop):
            continue
        last = stop
        yield stop
    if last < end:
        yield end


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence of ``text`` without the white space around it."""
    spans = []
    start = 0
    for end in sentence_ends(text):
        sentence = text[start:end]
        inner = sentence.lstrip()
        if inner:
            left = start + len(sentence) - len(inner)
            spans.append((left, left + len(inner.rstrip())))
        start = end
    return spans


def clause_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where ``text[start:end]`` may be cut inside a sentence: after commas and the like."""
    for match in _CLAUSE.finditer(text, start, end):
        if start < match.end() < end and not _joins(text, match.end()):
            yield match.end()


def character_boundary(text: str, position: int, low: int) -> int:
    """Return the last place in ``(low, position]`` between two characters as readers see them.

    Words stay whole where that costs at most a few letters; ``position`` if there is no place.
    """
    whole = position
    while whole > low + 1 and position - whole < 64 and _joins(text, whole):
        whole -= 1
    if _joins(text, whole):
        return position
    at = whole
    while at > low + 1 and whole - at < 24 and _is_inside_word(text, at):
        at -= 1
    is_between = not _is_inside_word(text, at) and not _joins(text, at)
    return at if is_between else whole


def _ends_at_point(text: str, low: int, match: re.Match[str]) -> bool:
    at, stop = match.span()
    if stop - at > 1 and text[at : at + 2] == "..":
        return True
    word = text[low:at]
    if _SHORT.search(word) or _LIST_NUMBER.search(word if low else f"\n{word}"):
        return False
    if stop < len(text) and text[stop].islower():
        # Few other abbreviations are longer, and few sentences begin in lower case.
        return len(_LETTERS.search(word).group()) > 3  # type: ignore[union-attr]
    return True


def _is_wrapped(text: str, low: int, at: int, stop: int, end: int) -> bool:
    """Return whether the line that ends at ``at`` goes on at ``stop`` within one sentence."""
    before, after = text[at - 1 : at], text[stop : stop + 1]
    if not before or not after or text.count("\n", at, stop) > 1:
        return False
    if before == "-" and text[at - 2 : at - 1].isalpha() and after.islower():
        return True
    if before in _TERMINAL or not (before.isalnum() or before in "，、,”’）)\"'"):
        return False
    begin = max(low, max(text.rfind(mark, max(low, at - _LINE_CHARS), at) for mark in "\n\f") + 1)
    line = text[begin:at]
    following = text[stop : min(end, stop + _LINE_CHARS)].split("\n", 1)[0].split("\f", 1)[0]
    if "|" in line or "\t" in line or "|" in following or "\t" in following:
        return False
    if _BULLET.match(following) or line.lstrip().startswith(("#", ">")):
        return False
    if "\f" in text[at:stop]:
        # A page ends where it is full: only a line too short for prose ends with it.
        is_prose = after.isalnum() and _columns(line) >= _MIN_WRAP_COLUMNS
        return after.islower() or is_prose or (before > "\u2e7f" < after and after.isalnum())
    first = following.split(" ", 1)[0] if after < "\u2e7f" else after
    columns = _columns(line)
    room = max(columns, _columns(following)) - columns
    return columns >= _MIN_WRAP_COLUMNS and room < _columns(first) + 6 and not after.isupper()


def _columns(line: str) -> int:
    return len(line) + sum(character > "\u2e7f" for character in line)


def _joins(text: str, position: int) -> bool:
    """Return whether the characters on both sides of ``position`` are read as one."""
    if not 0 < position < len(text):
        return False
    left, right = text[position - 1], text[position]
    if right < "\u0300" and left not in ("\r", _JOINER):
        return False
    if right == _JOINER or left == _JOINER or (left == "\r" and right == "\n"):
        return True
    if _MODIFIERS[0] <= right <= _MODIFIERS[1]:
        return True
    if _FLAGS[0] <= right <= _FLAGS[1] and _FLAGS[0] <= left <= _FLAGS[1]:
        run = position
        while run > 0 and _FLAGS[0] <= text[run - 1] <= _FLAGS[1]:
            run -= 1
        return (position - run) % 2 == 1
    if "\u1100" <= left <= "\u11ff" and "\u1160" <= right <= "\u11ff":
        return True
    return unicodedata.category(right)[0] == "M"


def _is_inside_word(text: str, position: int) -> bool:
    """Return whether a cut at ``position`` would part letters or digits that belong together."""
    if not 0 < position < len(text):
        return False
    left, right = text[position - 1], text[position]
    if left.isdigit() and right.isdigit():
        return True
    if left > "\u2e7f" or right > "\u2e7f":
        return False
    if right in _INNER:
        right = text[position + 1 : position + 2]
    elif left in _INNER:
        left = text[position - 2 : position - 1]
    return left.isalnum() and right.isalnum()
