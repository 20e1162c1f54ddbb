"""Checks what an answer cites. In: an answer with markers and its passages. Out: verdicts.

Two markers are understood: ``<cite doc_id="doc_01" quote="…">claim</cite>`` and a bare ``[n]``.
A quote is looked for in the whole text of the hit, folded; what differs by more than typography
is altered, however little it is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from rag.core.types import Citation
from rag.stages.context import Passage
from rag.stages.fold import Folded, fold_quote

_CITE = re.compile(
    r"<cite\b(?P<attributes>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>(?P<claim>.*?)</cite>", re.S
)
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_NUMBER = re.compile(r"\[(\d{1,3})\]")
_MARKER = re.compile(rf"(?P<cite>{_CITE.pattern})|(?P<number>{_NUMBER.pattern})", re.S)
_SENTENCE = re.compile(r"[^。！？!?\n]*(?:\.(?=\s)[^。！？!?\n]*)*$")
# Below this likeness in percent the closest span is no altered quote but another text.
LIKENESS = 60.0
MIN_QUOTE = 2


def verify_citations(text: str, passages: Sequence[Passage]) -> tuple[str, tuple[Citation, ...]]:
    """Return the text with ``[n]`` for its n-th citation, and the citations.

    Offsets are code points of the file's canonical text. A citation that nothing supports is
    kept, with the verdict unknown.
    """
    checker = _Checker(passages)
    out: list[str] = []
    citations: list[Citation] = []
    position = 0
    for match in _MARKER.finditer(text):
        before = text[position : match.start()]
        out.append(before)
        position = match.end()
        if match["cite"]:
            claim = match["claim"]
            found = checker.by_tag(match["attributes"], claim)
            out.append(claim)
        else:
            claim = _SENTENCE.search("".join(out).rstrip()).group().strip()  # type: ignore[union-attr]
            found = checker.by_number(int(_NUMBER.sub(r"\1", match["number"])), claim)
        found = replace(found, number=len(citations) + 1)
        citations.append(found)
        out.append(f"[{found.number}]")
    out.append(text[position:])
    return "".join(out), tuple(citations)


class _Checker:
    """The passages of one answer, each folded once."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = {passage.doc_id: passage for passage in passages}
        self.order = list(passages)
        self._folded: dict[str, Folded] = {}

    def by_tag(self, attributes: str, claim: str) -> Citation:
        """Return the verdict on one ``<cite>`` tag."""
        values = {name: html.unescape(a or b) for name, a, b in _ATTRIBUTE.findall(attributes)}
        doc_id, quote = values.get("doc_id", ""), values.get("quote", "").strip()
        return self._check(doc_id, quote or claim.strip(), claim)

    def by_number(self, number: int, claim: str) -> Citation:
        """Return the verdict on a bare ``[n]``: its sentence is taken for the quote."""
        known = 1 <= number <= len(self.order)
        doc_id = self.order[number - 1].doc_id if known else str(number)
        return self._check(doc_id, claim, claim)

    def _check(self, doc_id: str, quote: str, claim: str) -> Citation:
        citation = Citation(0, doc_id, quote, "unknown", claim=claim)
        folded = fold_quote(quote).text.strip("\"'")
        if len(folded) < MIN_QUOTE:
            return citation
        named = self.passages.get(doc_id)
        if named is not None and (span := self._exact(named, folded)):
            return self._located(citation, named, span, "verified")
        for other in self.order:
            if other is not named and (span := self._exact(other, folded)):
                return self._located(citation, other, span, "wrong_document")
        return self._closest(citation, named, folded) if named is not None else citation

    def _exact(self, passage: Passage, quote: str) -> tuple[int, int] | None:
        source = self._fold(passage)
        at = source.text.find(quote)
        return None if at < 0 else source.span(at, at + len(quote))

    def _closest(self, citation: Citation, passage: Passage, quote: str) -> Citation:
        source = self._fold(passage)
        if not source.text:
            return citation
        match = fuzz.partial_ratio_alignment(quote, source.text, score_cutoff=LIKENESS)
        if match is None or match.dest_end <= match.dest_start:
            return citation
        found = source.text[match.dest_start : match.dest_end]
        span = source.span(match.dest_start, match.dest_end)
        distance = Levenshtein.distance(quote, found)
        return replace(self._located(citation, passage, span, "altered"), distance=distance)

    def _located(
        self, citation: Citation, passage: Passage, span: tuple[int, int], verdict: str
    ) -> Citation:
        hit = passage.hit
        return replace(
            citation, doc_id=passage.doc_id, verdict=verdict, chunk_id=hit.chunk_id,
            revision=hit.revision, file_id=hit.file_id, file_name=hit.file_name,
            char_start=hit.char_start + span[0], char_end=hit.char_start + span[1],
            page=_page(passage, span[0]), found=hit.text[span[0] : span[1]],
        )  # fmt: skip

    def _fold(self, passage: Passage) -> Folded:
        if passage.doc_id not in self._folded:
            self._folded[passage.doc_id] = fold_quote(passage.hit.text)
        return self._folded[passage.doc_id]


def _page(passage: Passage, position: int) -> int | None:
    """Return the page of a position in a hit: pages are joined by a form feed."""
    first = passage.hit.page_first
    if first is None:
        return None
    last = passage.hit.page_last or first
    return min(last, first + passage.hit.text.count("\f", 0, position))
