"""Spoken text: which pieces of a streamed model answer are for people, and which decide a flow.

JSON speaks by its ``response_content``, read while it comes; calls of tools say nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from agents.core.tool_calls import begins_call, parse_tool_calls, tag_start
from rag.stages.citing.verify import AnswerWriter, Part

# For people; for the flow, and whoever watches it.
TOKEN, DRAFT = "token", "draft"
SpokenForm = Literal["text", "json", "none"]
_OPENING = re.compile(r'(?<!\\)"response_content"\s*:\s*"')
_LONGEST_OPENING = 64
# What may be half of a sign: a backslash, \u with too few digits, the first half of a pair.
_HALF = re.compile(
    r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)\Z"
)
_END = re.compile(r'(?<!\\)(?:\\\\)*"')


class SpokenText:
    """Sorts an answer while it streams, for one call of a model.

    ``form`` text: all of it is for people, but for calls of ``tools``; json: its
    ``response_content``; none: nothing. With a ``writer`` people are shown what that shows of it.
    """

    def __init__(
        self,
        form: SpokenForm = "text",
        *,
        writer: AnswerWriter | None = None,
        tools: Collection[str] = (),
    ) -> None:
        self.writer = writer
        self._form, self._tools = form, tools
        self._held, self._is_open = "", not tools
        self._value = _JsonText()

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the kind and text of what a piece brings."""
        if self._form != "text":
            yield from _told(DRAFT, text)
        if self._form == "json":
            yield from self._spoken(self._value.feed(text))
        if self._form == "text":
            self._held += text
            self._is_open = self._is_open or not begins_call(self._held)
            if self._is_open:
                shown = tag_start(self._held) if self._tools else len(self._held)
                text, self._held = self._held[:shown], self._held[shown:]
                yield from self._spoken(text)

    def is_call(self, text: str) -> bool:
        """Return whether a whole answer is a call that is written as text."""
        return bool(self._tools) and bool(parse_tool_calls(text, self._tools, is_lenient=False))

    def finish(self, *, is_call: bool = False) -> Iterator[tuple[str, str]]:
        """Yield what was held back; ``is_call`` says that it calls tools."""
        if is_call:
            yield from _told(DRAFT, self._held)
        elif self._form == "text":
            yield from self._spoken(self._held)
        self._held = ""
        if self.writer and not is_call:
            yield from _told(TOKEN, _shown(self.writer.finish()))

    def take(self, text: str, *, is_call: bool = False) -> None:
        """Take in a whole answer that nobody is told."""
        list(self.feed(text))
        list(self.finish(is_call=is_call or self.is_call(text)))

    def _spoken(self, text: str) -> Iterator[tuple[str, str]]:
        if self.writer and text:
            text = _shown(self.writer.feed(text))
        yield from _told(TOKEN, text)


def _told(kind: str, text: str) -> Iterator[tuple[str, str]]:
    if text:
        yield kind, text


def _shown(parts: Iterable[Part]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


class _JsonText:
    """The text of the first ``response_content`` of JSON that comes in pieces."""

    def __init__(self) -> None:
        self._waiting, self._is_inside, self._is_over = "", False, False

    def feed(self, piece: str) -> str:
        if self._is_over:
            return ""
        self._waiting += piece
        if not self._is_inside:
            opening = _OPENING.search(self._waiting)
            if opening is None:
                self._waiting = self._waiting[-_LONGEST_OPENING:]
                return ""
            self._is_inside, self._waiting = True, self._waiting[opening.end() :]
        end = _END.search(self._waiting)
        if end:
            self._is_over = True
            return _unescaped(self._waiting[: end.end() - 1])
        half = _HALF.search(self._waiting)
        whole = half.start(1) if half else len(self._waiting)
        text, self._waiting = self._waiting[:whole], self._waiting[whole:]
        return _unescaped(text)


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        # No JSON after all: the node's end tells what it is.
        return ""
