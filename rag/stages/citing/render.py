"""Citation rendering: a model's answer as it streams, its markers verified and shown or taken out.

``numbered`` shows each as ``[n]``; ``spans`` takes them out and says where in the text each claim
stands; ``hidden`` takes them out with their citations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from rag.core.types import Citation
from rag.stages.citing.verify import CitationStream
from rag.stages.prompting.context import Passage
from rag.stages.text.sentences import sentence_ends

# A quote of another document than was named is set right, and so it holds.
HOLDING_VERDICTS = frozenset({"verified", "wrong_document"})
Marks = Literal["numbered", "spans", "hidden"]
Part = str | Citation
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_TAIL = 4000


def failed_citations(citations: Sequence[Citation]) -> list[Citation]:
    """Return the citations whose quote no source holds as it stands."""
    return [citation for citation in citations if citation.verdict not in HOLDING_VERDICTS]


class CitationRenderer:
    """Passes an answer on as it comes; ``spans`` are code points of all the text passed on.

    ``drops_failed`` holds numbered text back sentence by sentence and leaves out those with a
    quote that its source does not hold: ``n_dropped`` counts them.
    """

    def __init__(
        self, passages: Sequence[Passage], *, marks: Marks = "numbered", drops_failed: bool = False
    ) -> None:
        self._stream = CitationStream(passages)
        self._marks, self._drops = marks, drops_failed and marks == "numbered"
        # What is held back: text without marks, and where in it each citation stands.
        self._text, self._cited = "", list[tuple[int, Citation]]()
        # The end of what was passed on, and the length of all of it.
        self._tail, self._length = "", 0
        self.spans: list[tuple[int, int]] = []
        self.n_dropped = 0

    def feed(self, piece: str) -> list[Part]:
        """Return what ``piece`` lets go, in order."""
        return self._passed(self._stream.feed(piece), is_last=False)

    def finish(self) -> list[Part]:
        """Return what is left when the answer ends."""
        return self._passed(self._stream.finish(), is_last=True)

    def _passed(self, parts: Sequence[Part], *, is_last: bool) -> list[Part]:
        if self._marks == "numbered" and not self._drops:
            return list(parts)
        # The stream writes each mark as a part of its own before its citation.
        bare = [
            part
            for part, following in zip(parts, [*parts[1:], ""], strict=False)
            if isinstance(part, Citation) or not isinstance(following, Citation)
        ]
        if self._drops:
            return self._sentences(bare, is_last=is_last)
        if self._marks == "hidden":
            return [part for part in bare if isinstance(part, str)]
        return [self._spanned(part) for part in bare]

    def _spanned(self, part: Part) -> Part:
        if isinstance(part, str):
            part = _UNSTORABLE.sub("", part)
            self._length += len(part)
            self._tail = (self._tail + part)[-_TAIL:]
        else:
            # A claim ends where its mark was, but for some blanks.
            shown, words = self._tail.rstrip(), part.claim.strip()
            end = self._length - (len(self._tail) - len(shown))
            self.spans.append((end - len(words) if shown.endswith(words) else end, end))
        return part

    def _sentences(self, parts: Sequence[Part], *, is_last: bool) -> list[Part]:
        for part in parts:
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
        if any(citation.verdict not in HOLDING_VERDICTS for _, citation in cited):
            self.n_dropped += 1
            return []
        return [part for part in parts if part != ""]
