"""Citation verification: a verdict for each marker of an answer, whole or streamed.

A quote is looked for in the whole text of the hit, folded; what differs by more than typography
is altered, however little it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rag.core.types import Citation
from rag.stages.citing.citation_markers import Marker, MarkerReader, read_markers
from rag.stages.citing.locate import QuotePlace, closest_quote, find_quote, quoted_words
from rag.stages.prompting.context import Passage
from rag.stages.text.normalize import NormalizedText, normalize_quote, normalize_quotes

_DOC_ID = re.compile(r"(?:doc[_-]?)?([0-9]{1,3})", re.I)


def verify_citations(
    text: str, passages: Sequence[Passage], *, is_strict: bool = False
) -> tuple[str, tuple[Citation, ...]]:
    """Return the text with ``[n]`` for its n-th citation, and the citations.

    Offsets are code points of the file's canonical text. A citation that nothing supports is
    kept, with the verdict unknown. With ``is_strict`` a quote that is cut within its sentence is
    altered, even where a clause ends.
    """
    checker = CitationChecker(passages, is_strict=is_strict)
    out: list[str] = []
    citations: list[Citation] = []
    for part in read_markers(text):
        if isinstance(part, str):
            out.append(part)
            continue
        citations.append(checker.check(part))
        out.append(f"[{citations[-1].number}]")
    return "".join(out), tuple(citations)


class CitationChecker:
    """The passages of one answer, each folded once and only when it is looked into."""

    def __init__(self, passages: Sequence[Passage], *, is_strict: bool = False) -> None:
        self._passages = {passage.doc_id: passage for passage in passages}
        self._folded: dict[str, NormalizedText] = {}
        self._is_strict = is_strict
        self._n = 0

    def check(self, marker: Marker) -> Citation:
        """Return the next numbered citation; without a quote its claim is taken for one."""
        self._n += 1
        quote = marker.quote or marker.claim
        named = self._named(marker.doc_id)
        doc_id = named.doc_id if named else marker.doc_id
        citation = Citation(self._n, doc_id, quote, "unknown", claim=marker.claim)
        forms = quoted_words(quote)
        if not forms:
            return citation
        cut, words = None, forms[-1]
        if named:
            # With its own stop first, so that the span shown is the whole sentence.
            for form in forms:
                place, is_whole = self._find(form, named)
                if place and is_whole:
                    return _located(citation, named, place, "verified")
            cut = place
        self._fold_all()
        for other in self._passages.values():
            if other is named or words not in self._fold(other).text:
                continue
            place, is_whole = self._find(words, other)
            if place and is_whole:
                return _located(citation, other, place, "wrong_document")
        if named and (place := cut or closest_quote(words, self._fold(named))):
            return _located(citation, named, place, "altered")
        return citation

    def _find(self, words: str, passage: Passage) -> tuple[QuotePlace | None, bool]:
        return find_quote(words, self._fold(passage), is_strict=self._is_strict)

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


def _located(citation: Citation, passage: Passage, place: QuotePlace, verdict: str) -> Citation:
    located = locate_citation(citation, passage, place.start, place.end)
    return replace(located, verdict=verdict, distance=place.distance)


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
