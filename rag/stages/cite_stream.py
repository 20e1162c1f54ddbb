"""An answer while it is written. In: its pieces, however they are cut. Out: text and citations."""

from __future__ import annotations

from collections.abc import Sequence

from rag.core.types import Citation
from rag.stages.cite import CitationChecker
from rag.stages.context import Passage
from rag.stages.markers import MarkerReader


class CitationStream:
    """Turns pieces of an answer into text that is safe to show and finished citations.

    All parts together are what ``verify_citations`` gives for the whole text: the same text, with
    ``[n]`` where citation ``n`` follows, and the same citations.
    """

    def __init__(self, passages: Sequence[Passage], *, is_strict: bool = False) -> None:
        self._checker = CitationChecker(passages, is_strict=is_strict)
        self._reader = MarkerReader()

    def feed(self, piece: str) -> list[str | Citation]:
        """Return what ``piece`` completes, in order; nothing of an unfinished marker."""
        return self._parts(piece, is_last=False)

    def finish(self) -> list[str | Citation]:
        """Return what is left when the answer ends; a tag left open ends with it."""
        return self._parts("", is_last=True)

    def _parts(self, piece: str, *, is_last: bool) -> list[str | Citation]:
        parts: list[str | Citation] = []
        for part in self._reader.feed(piece, is_last=is_last):
            if isinstance(part, str):
                parts.append(part)
            else:
                citation = self._checker.check(part)
                parts += [f"[{citation.number}]", citation]
        return parts
