"""Marker stripping: an answer's plain text with citations and the spans of their claims.

``CitationStream``, beside it, leaves ``[n]`` in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.core.types import Citation
from rag.stages.citing.verify import CitationStream
from rag.stages.prompting.context import Passage

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_TAIL = 4000


class MarkerStripper:
    """Reads pieces; ``citations`` and ``spans``, code points of the whole text, go together."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._stream = CitationStream(passages)
        self._tail = ""
        self._length = 0
        self.citations: list[Citation] = []
        self.spans: list[tuple[int, int]] = []

    def feed(self, piece: str) -> str:
        """Return the text that ``piece`` completes."""
        return self._take(self._stream.feed(piece))

    def finish(self) -> str:
        """Return what is left when the answer ends."""
        return self._take(self._stream.finish())

    def _take(self, parts: Sequence[str | Citation]) -> str:
        text = ""
        for part, after in zip(parts, [*parts[1:], ""], strict=False):
            if isinstance(part, Citation):
                self.citations.append(part)
                self.spans.append(self._span(part.claim))
            elif not isinstance(after, Citation):
                # What stands before a citation is its mark.
                part = _UNSTORABLE.sub("", part)
                text += part
                self._length += len(part)
                self._tail = (self._tail + part)[-_TAIL:]
        return text

    def _span(self, claim: str) -> tuple[int, int]:
        """Return where the claim stands: it ends where its mark was, but for some blanks."""
        bare, words = self._tail.rstrip(), claim.strip()
        end = self._length - (len(self._tail) - len(bare))
        return (end - len(words) if words and bare.endswith(words) else end), end
