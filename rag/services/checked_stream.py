"""An answer while it is written, its quotes checked. In: pieces. Out: text and citations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rag.core.types import Citation
from rag.stages.cite import verify_citations
from rag.stages.cite_stream import CitationStream
from rag.stages.context import Passage
from rag.stages.sentences import sentence_ends

# A quote of another document than was named is set right, and so it holds.
HOLDS = frozenset({"verified", "wrong_document"})
Part = str | Citation


def failed(citations: Sequence[Citation]) -> list[Citation]:
    """Return the citations whose quote no source holds as it stands."""
    return [citation for citation in citations if citation.verdict not in HOLDS]


def checked_text(text: str, passages: Sequence[Passage]) -> tuple[str, tuple[Citation, ...]]:
    """Return a whole answer with ``[n]`` for its citations, and these, checked."""
    return verify_citations(text, passages)


class CheckedStream:
    """Passes an answer on as it comes, each citation checked and shown as ``[n]``.

    ``drops_failed`` holds the text back sentence by sentence and leaves out those with a quote
    that its source does not hold. ``shows_marks`` False gives the bare text without citations.
    """

    def __init__(
        self, passages: Sequence[Passage], *, drops_failed: bool = False, shows_marks: bool = True
    ) -> None:
        self._stream = CitationStream(passages)
        self._drops, self._shows = drops_failed, shows_marks
        # What is held back: text without marks, and where in it each citation stands.
        self._text, self._cited = "", list[tuple[int, Citation]]()
        self.n_dropped = 0

    def feed(self, piece: str) -> list[Part]:
        """Return what ``piece`` lets go, in order."""
        return self._passed(self._stream.feed(piece), is_last=False)

    def finish(self) -> list[Part]:
        """Return what is left when the answer ends."""
        return self._passed(self._stream.finish(), is_last=True)

    def _passed(self, parts: Sequence[Part], *, is_last: bool) -> list[Part]:
        # The stream writes each mark as a part of its own before its citation.
        bare = [
            part for part, following in zip(parts, [*parts[1:], ""], strict=False)
            if isinstance(part, Citation) or not isinstance(following, Citation)
        ]  # fmt: skip
        if not self._shows:
            return [part for part in bare if isinstance(part, str)]
        if not self._drops:
            return list(parts)
        for part in bare:
            if isinstance(part, str):
                self._text += part
            else:
                self._cited.append((len(self._text), part))
        ends = list(sentence_ends(self._text)) if self._text else []
        # Behind the last end more of the same sentence, or its mark, may come.
        out: list[Part] = []
        for start, end in pairwise([0, *ends[:-1]]):
            out += self._sentence(end - start)
        return out + self._sentence(len(self._text)) if is_last else out

    def _sentence(self, end: int) -> list[Part]:
        """Take the held text up to ``end``; return what is shown of it."""
        cited = [(at, one) for at, one in self._cited if at <= end]
        parts: list[Part] = []
        start = 0
        for at, citation in cited:
            parts += [self._text[start:at], f"[{citation.number}]", citation]
            start = at
        parts.append(self._text[start:end])
        self._text = self._text[end:]
        self._cited = [(at - end, one) for at, one in self._cited if at > end]
        if any(citation.verdict not in HOLDS for _, citation in cited):
            self.n_dropped += 1
            return []
        return [part for part in parts if part != ""]
