"""Citation check: the verdict of a marker, against the passages that an answer was written from.

A quote is looked for in the whole text of the hit, folded; what differs by more than typography
is altered, however little it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rag.core.types import HOLDING_VERDICTS, Citation, Verdict
from rag.stages.citing.attribute import Attribution
from rag.stages.citing.citation_markers import Marker
from rag.stages.citing.locate import (
    QuotePlace,
    closest_quote,
    find_abridged,
    find_quote,
    quoted_parts,
    quoted_words,
)
from rag.stages.citing.statements import StatementJudge, is_telling
from rag.stages.prompting.context import Passage
from rag.stages.text.normalize import NormalizedText, normalize_quote, normalize_quotes

_DOC_ID = re.compile(r"(?:doc[_-]?)?([0-9]{1,3})", re.I)


class CitationChecker:
    """The passages of one answer, each folded once and only when it is looked into."""

    def __init__(
        self, passages: Sequence[Passage], judge: StatementJudge, *, is_strict: bool = False
    ) -> None:
        self._judge = judge
        self._passages = {passage.doc_id: passage for passage in passages}
        self._folded: dict[str, NormalizedText] = {}
        self._is_strict = is_strict

    def check(self, marker: Marker) -> Citation:
        """Return the citation, without a number; without a quote its claim is taken for one."""
        quote = marker.quote or marker.claim
        named = self._named(marker.doc_id)
        doc_id = named.doc_id if named else marker.doc_id
        citation = Citation(0, doc_id, quote, "unknown", claim=marker.claim)
        forms = quoted_words(quote)
        if not forms:
            return citation
        cut, words, parts = None, forms[-1], quoted_parts(forms[0])
        if named:
            # With its own stop first, so that the span shown is the whole sentence.
            for form in forms:
                place, is_whole = self._find(form, named)
                if place and is_whole:
                    return _located(citation, named, place, "verified")
            abridged, is_whole = self._find_abridged(parts, named)
            if abridged and is_whole:
                return _located(citation, named, abridged, "abridged")
            cut = place or abridged
        if named and not marker.quote and (source := self._judge.attribute(quote, named)):
            # A bare mark names a document and quotes nothing: its words are found for it.
            return _sourced(citation, source)
        self._fold_all()
        for other in self._passages.values():
            if other is named:
                continue
            place, is_whole = self._find(words, other)
            if not is_whole:
                place, is_whole = self._find_abridged(parts, other)
            if place and is_whole:
                # Where no document was named, none was named wrongly.
                verdict: Verdict = "abridged" if place.omitted else "verified"
                verdict = "wrong_document" if marker.doc_id else verdict
                return _located(citation, other, place, verdict)
        if named and (place := cut or closest_quote(words, self._fold(named))):
            return _located(citation, named, place, "altered")
        return citation

    def check_bare(self, marker: Marker, sentence: str, before: int, at: int) -> Citation:
        """Return the citation of a mark at ``at`` of its sentence; ``before`` is the mark before.

        It is for what stands before it, where that is enough to be told by, else for all of it.
        """
        parts = [part for part in (sentence[before:at], marker.claim) if is_telling(part)]
        goes_on = any(map(str.isalnum, sentence[at:]))
        whole = [sentence] if goes_on else []
        if not goes_on or not sentence[:at].strip():
            whole.append(marker.claim)
        claims = [*parts, *whole]
        said = dict.fromkeys(claim.strip() for claim in claims if any(map(str.isalnum, claim)))
        found = [self.check(replace(marker, claim=claim)) for claim in said or [marker.claim]]
        return min(found, key=lambda one: one.verdict not in HOLDING_VERDICTS)

    def attributed(self, claim: str, source: Attribution) -> Citation:
        """Return the citation of a claim that was written without one."""
        citation = Citation(0, source.passage.doc_id, "", "verified", claim=claim)
        return _sourced(citation, source)

    def _find(self, words: str, passage: Passage) -> tuple[QuotePlace | None, bool]:
        return find_quote(words, self._fold(passage), is_strict=self._is_strict)

    def _find_abridged(
        self, parts: Sequence[str], passage: Passage
    ) -> tuple[QuotePlace | None, bool]:
        if len(parts) < 2:
            return None, False
        return find_abridged(parts, self._fold(passage), is_strict=self._is_strict)

    def _named(self, doc_id: str) -> Passage | None:
        """Return the passage of an id; ``1`` and ``doc_1`` are ``doc_01``."""
        if doc_id in self._passages:
            return self._passages[doc_id]
        match = _DOC_ID.fullmatch(doc_id)
        return self._passages.get(f"doc_{int(match[1]):02d}") if match else None

    def _fold_all(self) -> None:
        rest = [one for name, one in self._passages.items() if name not in self._folded]
        folded = normalize_quotes([passage.hit.text for passage in rest])
        self._folded.update(zip((passage.doc_id for passage in rest), folded, strict=True))

    def _fold(self, passage: Passage) -> NormalizedText:
        if passage.doc_id not in self._folded:
            self._folded[passage.doc_id] = normalize_quote(passage.hit.text)
        return self._folded[passage.doc_id]


def document_number(doc_id: str) -> int:
    """Return the number in the id of a document; 0 where it names none."""
    match = _DOC_ID.fullmatch(doc_id)
    return int(match[1]) if match else 0


def locate_citation(citation: Citation, passage: Passage, start: int, end: int) -> Citation:
    """Return ``citation`` at ``text[start:end]`` of a passage's hit, in the file's own offsets."""
    hit = passage.hit
    first, last = hit.char_start + start, hit.char_start + end
    is_edited = (hit.revision or 1) > 1 or hit.char_end - hit.char_start != len(hit.text)
    if hit.chunk_id is not None and is_edited:
        # An edited chunk has other words than its file: all that stands firm is where it lies.
        first, last = hit.char_start, hit.char_end
    # Of chunks that were merged the one with the quote is pinned, or the first of several.
    pinned = next(iter(hit.parts_at(first, last)), hit)
    return replace(
        citation,
        doc_id=passage.doc_id,
        chunk_id=pinned.chunk_id,
        revision=pinned.revision,
        file_id=hit.file_id,
        file_name=hit.file_name,
        char_start=first,
        char_end=last,
        page=hit.page_at(start),
        found=hit.text[start:end],
    )


def _located(citation: Citation, passage: Passage, place: QuotePlace, verdict: Verdict) -> Citation:
    located = locate_citation(citation, passage, place.start, place.end)
    omitted = tuple((start - place.start, end - place.start) for start, end in place.omitted)
    return replace(located, verdict=verdict, distance=place.distance, omitted=omitted)


def _sourced(citation: Citation, source: Attribution) -> Citation:
    located = locate_citation(citation, source.passage, source.start, source.end)
    return replace(located, quote=source.text, verdict="verified")


def failed_citations(citations: Iterable[Citation]) -> list[Citation]:
    """Return the citations whose quote no source holds as it stands."""
    return [citation for citation in citations if citation.verdict not in HOLDING_VERDICTS]
