"""Groundings of an answer: byte spans of its parts, as a service gives them, as character spans.

Services count UTF-8 bytes within one part; a Python text cut by them would break in any Chinese
sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag.core.file_search import Grounding


@dataclass(frozen=True, slots=True)
class GroundingSupport:
    """A stretch of an answer and the chunks, by index, that it rests on.

    ``start`` and ``end`` are bytes of the part ``part`` in UTF-8, ``text`` what is said to stand
    there; it may be empty.
    """

    chunks: Sequence[int]
    start: int = 0
    end: int = 0
    part: int = 0
    text: str = ""


def resolve_groundings(
    parts: Sequence[str], chunks: Sequence[Grounding], supports: Sequence[GroundingSupport]
) -> tuple[Grounding, ...]:
    """Return a grounding for each stretch and chunk, in the answer's order, spans in code points.

    The text of a support is believed more than its numbers. Chunks that no stretch can be found
    for come last, in their own order, without a span.
    """
    answer = _Answer(parts)
    placed: list[tuple[int, int, int]] = []
    for support in supports:
        span = answer.span_of(support)
        if span is not None:
            placed += [(*span, at) for at in support.chunks if 0 <= at < len(chunks)]
    placed = sorted(dict.fromkeys(placed))
    used = {at for _, _, at in placed}
    spanned = [replace(chunks[at], start=start, end=end) for start, end, at in placed]
    return (*spanned, *(chunk for at, chunk in enumerate(chunks) if at not in used))


class _Answer:
    """An answer's parts, findable by bytes and by text. Thoughts are parts too: empty ones."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = parts
        self._whole = "".join(parts)

    def span_of(self, support: GroundingSupport) -> tuple[int, int] | None:
        """Return start and end in code points of the whole answer; None where nothing fits."""
        spans = [
            (before + start, before + end)
            for before, text in self._places(support.part)
            if (span := _characters(text, support.start, support.end))
            for start, end in [span]
        ]
        if not support.text:
            return spans[0] if spans else None
        for start, end in spans:
            if self._whole[start:end] == support.text:
                return start, end
        return self._nearest(support.text, spans[0][0] if spans else 0)

    def _places(self, part: int) -> Iterator[tuple[int, str]]:
        if 0 <= part < len(self._parts):
            yield sum(map(len, self._parts[:part])), self._parts[part]
        # A stream tears one part into many pieces and counts through all of them.
        yield 0, self._whole

    def _nearest(self, text: str, about: int) -> tuple[int, int] | None:
        found, at = [], self._whole.find(text)
        while at >= 0:
            found.append(at)
            at = self._whole.find(text, at + 1)
        if not found:
            return None
        start = min(found, key=lambda place: abs(place - about))
        return start, start + len(text)


def _characters(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return code points for bytes, widened to whole characters; None when they lie outside."""
    encoded = text.encode("utf-8", "surrogatepass")
    if not 0 <= start < end <= len(encoded):
        return None
    # A byte 10xxxxxx is the middle of a character.
    while encoded[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(encoded) and encoded[end] & 0xC0 == 0x80:
        end += 1
    first = len(encoded[:start].decode("utf-8", "surrogatepass"))
    return first, first + len(encoded[start:end].decode("utf-8", "surrogatepass"))
