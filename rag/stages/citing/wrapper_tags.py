"""Wrapper tags: XML-like tags around an answer or a part of it, and tokens of chat templates.

Told by how a tag stands, not by its name. Code, quoted HTML, placeholders and signs of less and
more are text and stay.
"""

from __future__ import annotations

import re
from collections import Counter

_NAME = r"[^\W\d_][\w-]{0,40}"
_ATTRIBUTE = r"\s{1,3}[\w:-]{1,30}\s?=\s?(?:\"[^\"<>]{0,200}\"|'[^'<>]{0,200}')"
_ELEMENT = re.compile(
    rf"<(?P<slash>/?)(?P<name>{_NAME})(?P<attributes>(?:{_ATTRIBUTE})*)\s{{0,3}}(?P<empty>/?)>"
)
_TOKEN = re.compile(r"<[|｜][\w▁ -]{1,30}[|｜]>")
# Every beginning of one, since a streamed text may end anywhere.
_BEGUN = re.compile(
    rf"<(?:/?(?:{_NAME}(?:{_ATTRIBUTE})*"
    r"(?:\s{1,3}(?:[\w:-]{1,30}(?:\s?=\s?(?:[\"'][^\"'<>]{0,200})?)?)?)?/?)?"
    r"|[|｜](?:[\w▁ -]{1,30}[|｜]?)?)"
)
_DOC_ID = re.compile(r"[\"'](?:doc[_-]?)?\d{1,3}[\"']", re.I)
_LINE_START = re.compile(r"\s*(?:(?:[-*+•>]|\d{1,2}[.)])\s+)?[*_]{0,2}")
_FENCE = re.compile(r"\s*(?:`{3}|~{3})(?!\s*(?:markdown|md)\b)", re.I)
_ANY_FENCE = re.compile(r"\s*(?:`{3}|~{3})")
_TICKS = re.compile(r"`+|[^`]+")
_BLANKS = re.compile(r"[ \t]*")
# Behind these a tag is part of a word, of a quote or of a pattern.
_QUOTES = frozenset("\"'“”‘’「」『』《》〈〉‹›`")
_BOUND = _QUOTES | frozenset("-/=\\<&@#$%")
# With these a sentence may begin, besides letters and digits.
_OPENING = frozenset('*_"“「『《【([（<')
# How far the end of a tag amid a line is looked for, and how much of a line tells where it begins.
_MAX_PAIR, _MAX_START = 1000, 80


class WrapperTags:
    """Finds the tags that wrap an answer, while it is read; whatever the pieces, the same."""

    def __init__(self) -> None:
        # The fence that is open: of code, or of an answer that a model has fenced whole.
        self._is_fenced = self._is_in_answer = False
        # Of the open line its beginning, its last character, the backticks that may go on, and
        # how many opened the span of code that is open.
        self._line, self._last, self._n_ticks, self._n_open = "", "", 0, 0
        self._kept = Counter[str]()

    def see(self, text: str) -> None:
        """Take in what is shown."""
        for number, line in enumerate(text.split("\n")):
            if number:
                self._end_line()
            self._line = (self._line + line)[:_MAX_START]
            self._last = line[-1:] or self._last
            for run in _TICKS.findall(line):
                if run[0] == "`":
                    self._n_ticks += len(run)
                else:
                    self._end_ticks()

    def is_code(self, text: str, at: int, *, is_last: bool) -> bool | None:
        """Return whether what stands at ``at`` is code; None while that is open.

        A backtick without another one in its line begins none.
        """
        self._end_ticks()
        if self._is_fenced or not self._n_open:
            return self._is_fenced
        stop = at + _MAX_PAIR
        line = text.find("\n", at, stop)
        ends = (len(run[0]) for run in re.finditer("`+", text[at : line if line >= 0 else stop]))
        if self._n_open in ends:
            return True
        return False if is_last or line >= 0 or len(text) > stop else None

    def _end_line(self) -> None:
        if _ANY_FENCE.match(self._line):
            is_open = self._is_fenced or self._is_in_answer
            self._is_fenced = not is_open and bool(_FENCE.match(self._line))
            self._is_in_answer = not is_open and not self._is_fenced
        self._line, self._last, self._n_ticks, self._n_open = "", "", 0, 0

    def _end_ticks(self) -> None:
        if self._n_ticks:
            is_closing = self._n_open == self._n_ticks
            self._n_open = 0 if is_closing else self._n_open or self._n_ticks
            self._n_ticks = 0

    def end(self, text: str, at: int, *, is_last: bool) -> int | None:
        """Return where the wrapper ends that begins at ``at``; ``at`` if none; None while open."""
        self._end_ticks()
        if self._is_fenced or self._n_open:
            return at
        if token := _TOKEN.match(text, at):
            return self._behind(token, is_last)
        element = _ELEMENT.match(text, at)
        if element is None:
            return None if not is_last and _BEGUN.fullmatch(text, at) else at
        end = self._closed(element, is_last) if element["slash"] else self._opened(element, is_last)
        if end == at:
            self._kept[element["name"]] += -1 if element["slash"] else not element["empty"]
        return end

    def _closed(self, element: re.Match[str], is_last: bool) -> int | None:
        text, end = element.string, element.end()
        if self._last in _QUOTES and end == len(text) and not is_last:
            return None
        is_quoted = self._last in _QUOTES and text[end : end + 1] in _QUOTES
        if self._kept[element["name"]] > 0 or is_quoted:
            return element.start()
        return self._behind(element, is_last)

    def _behind(self, tag: re.Match[str], is_last: bool) -> int | None:
        """Return where the text goes on: with a tag that has a line of its own the line goes."""
        text, end = tag.string, _BLANKS.match(tag.string, tag.end()).end()  # type: ignore[union-attr]
        if self._line.strip():
            return tag.end()
        if end == len(text) and not is_last:
            return None
        return end + text.startswith("\n", end)

    def _opened(self, element: re.Match[str], is_last: bool) -> int | None:
        text, at, end = element.string, element.start(), element.end()
        if element["attributes"] and not _DOC_ID.search(element["attributes"]):
            return at
        after = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
        if after == len(text) and not is_last:
            return None
        first = text[after : after + 1]
        may_begin = first.isalnum() or first in _OPENING or first in "\n"
        if _LINE_START.fullmatch(self._line):
            # Before a small letter a tag apart from it is a placeholder.
            is_wrapper = may_begin and (after == end or not first.islower())
            return self._behind(element, is_last) if is_wrapper else at
        if not may_begin or after > end or self._is_bound():
            return at
        closing = f"</{element['name']}>"
        line = text.find("\n", end)
        stop = min(len(text) if line < 0 else line, end + _MAX_PAIR)
        found = text.find(closing, end, stop)
        if found < 0 and not is_last and line < 0 and len(text) < end + _MAX_PAIR:
            return None
        return end if found >= 0 and not text[found - 1].isspace() else at

    def _is_bound(self) -> bool:
        return self._last in _BOUND or (self._last.isascii() and self._last.isalnum())
