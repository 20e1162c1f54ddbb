"""Checks what an answer cites. In: an answer with markers and its passages. Out: verdicts.

A quote is looked for in the whole text of the hit, folded; what differs by more than typography
is altered, however little it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rag.core.types import Citation
from rag.stages.context import Passage
from rag.stages.fold import Folded, fold_quote
from rag.stages.locate import Place, locate_quote, quoted_words
from rag.stages.markers import Marker, read_markers

_DOC_ID = re.compile(r"(?:doc[_-]?)?([0-9]{1,3})", re.I)


def verify_citations(text: str, passages: Sequence[Passage]) -> tuple[str, tuple[Citation, ...]]:
    """Return the text with ``[n]`` for its n-th citation, and the citations.

    Offsets are code points of the file's canonical text. A citation that nothing supports is
    kept, with the verdict unknown.
    """
    checker = _Checker(passages)
    out: list[str] = []
    citations: list[Citation] = []
    for part in read_markers(text):
        if isinstance(part, str):
            out.append(part)
            continue
        number = len(citations) + 1
        citations.append(replace(checker.check(part), number=number))
        out.append(f"[{number}]")
    return "".join(out), tuple(citations)


class _Checker:
    """The passages of one answer, each folded once."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = {passage.doc_id: passage for passage in passages}
        self._folded: dict[str, Folded] = {}

    def check(self, marker: Marker) -> Citation:
        """Return the verdict on one marker; without a quote its claim is taken for one."""
        quote = marker.quote or marker.claim
        named = self._named(marker.doc_id)
        doc_id = named.doc_id if named else marker.doc_id
        citation = Citation(0, doc_id, quote, "unknown", claim=marker.claim)
        folded = quoted_words(quote)
        if not folded:
            return citation
        # With its own stop first, so that the span shown is the whole sentence.
        for words in (fold_quote(quote).text, folded):
            if named and (place := locate_quote(words, self._fold(named), is_exact=True)):
                return _located(citation, named, place, "verified")
        for other in self._passages.values():
            if other is named:
                continue
            if place := locate_quote(folded, self._fold(other), is_exact=True):
                return _located(citation, other, place, "wrong_document")
        if named and (place := locate_quote(folded, self._fold(named))):
            return _located(citation, named, place, "altered")
        return citation

    def _named(self, doc_id: str) -> Passage | None:
        """Return the passage of an id; ``1`` and ``doc_1`` are ``doc_01``."""
        if doc_id in self._passages:
            return self._passages[doc_id]
        match = _DOC_ID.fullmatch(doc_id)
        return self._passages.get(f"doc_{int(match[1]):02d}") if match else None

    def _fold(self, passage: Passage) -> Folded:
        if passage.doc_id not in self._folded:
            self._folded[passage.doc_id] = fold_quote(passage.hit.text)
        return self._folded[passage.doc_id]


def _located(citation: Citation, passage: Passage, place: Place, verdict: str) -> Citation:
    hit = passage.hit
    return replace(
        citation, doc_id=passage.doc_id, verdict=verdict, chunk_id=hit.chunk_id,
        revision=hit.revision, file_id=hit.file_id, file_name=hit.file_name,
        char_start=hit.char_start + place.start, char_end=hit.char_start + place.end,
        page=_page(passage, place.start), found=hit.text[place.start : place.end],
        distance=place.distance,
    )  # fmt: skip


def _page(passage: Passage, position: int) -> int | None:
    """Return the page of a position in a hit: pages are joined by a form feed."""
    first = passage.hit.page_first
    if first is None:
        return None
    last = passage.hit.page_last or first
    return min(last, first + passage.hit.text.count("\f", 0, position))
