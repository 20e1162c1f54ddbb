"""Citation verification: a verdict for each marker of an answer, while it is written.

A quote is looked for in the whole text of the hit, folded; what differs by more than typography
is altered, however little it is. Whoever wrote an answer, it ends in ``AnswerWriter.result``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from rag.core.types import VERIFIED, Citation, Verdict
from rag.stages.citing.citation_markers import Marker, MarkerReader
from rag.stages.citing.locate import (
    QuotePlace,
    closest_quote,
    find_abridged,
    find_quote,
    quoted_parts,
    quoted_words,
)
from rag.stages.prompting.context import Passage
from rag.stages.text.normalize import NormalizedText, normalize_quote, normalize_quotes
from rag.stages.text.sentences import sentence_ends

_DOC_ID = re.compile(r"(?:doc[_-]?)?([0-9]{1,3})", re.I)
# A quote of another document than was named is set right, and so it holds.
HOLDING_VERDICTS = VERIFIED | {"wrong_document"}
Marks = Literal["numbered", "spans", "hidden"]
Part = str | Citation


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


def failed_citations(citations: Iterable[Citation]) -> list[Citation]:
    """Return the citations whose quote no source holds as it stands."""
    return [citation for citation in citations if citation.verdict not in HOLDING_VERDICTS]


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """An answer as it is shown, its citations with their verdicts, and what came of it."""

    text: str
    citations: tuple[Citation, ...] = ()
    outcome: str = "answered"


class AnswerWriter:
    """An answer while it is written: what is shown, what it cites, what came of it.

    ``marks`` numbered: each citation is shown as ``[n]``; spans: they are taken out, and ``spans``
    says where in the text each claim stands, in code points; hidden: they are taken out with their
    citations. ``drops_failed`` holds numbered text back sentence by sentence and leaves out those
    with a quote that its source does not hold: ``n_dropped`` counts them. ``is_strict`` takes a
    quote that is cut within its sentence for altered, even where a clause ends.

    ``own`` are words of ours, ``raw`` those of the model with its markers. Whatever the pieces, the
    result is the same; offsets of citations are code points of the file's canonical text.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        marks: Marks = "numbered",
        drops_failed: bool = False,
        is_strict: bool = False,
    ) -> None:
        self.passages, self.text, self.own, self.raw = passages, "", "", ""
        self.citations: list[Citation] = []
        self.spans: list[tuple[int, int]] = []
        self.n_dropped = 0
        self._checker = CitationChecker(passages, is_strict=is_strict)
        self._reader = MarkerReader()
        self._marks, self._drops = marks, drops_failed and marks == "numbered"
        # What is held back, and where in it each citation stands.
        self._held, self._cited = "", list[tuple[int, Citation]]()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is shown of what the model wrote."""
        return not self.text.removeprefix(self.own).strip()

    @property
    def failed(self) -> list[Citation]:
        """Return the citations whose quote no source holds."""
        return failed_citations(self.citations)

    @property
    def is_verified(self) -> bool:
        """Return whether a quote holds."""
        return len(self.failed) < len(self.citations)

    def feed(self, piece: str) -> list[Part]:
        """Take a piece of what the model writes; return what it lets go, in order."""
        self.raw += piece
        return self._read(piece, is_last=False)

    def finish(self) -> list[Part]:
        """Return what is left when the model ends; a tag left open ends with it."""
        return self._read("", is_last=True)

    def say(self, text: str) -> str:
        """Show words of our own."""
        self.own += text
        self.text += text
        return text

    def adopt(self, text: str, citations: Iterable[Citation]) -> None:
        """Show a text with marks whose citations have their verdicts already."""
        self.text += text
        self.citations += citations

    def ground(self, text: str, claims: Iterable[tuple[int, int, Passage]]) -> list[Part]:
        """Return a text without markers, of which ``start`` to ``end`` is said to be of a passage.

        Each claim is taken for the quote.
        """
        parts, shown = list[Part](), 0
        for start, end, passage in sorted(claims, key=lambda claim: claim[1]):
            found = self._checker.check(Marker(passage.doc_id, "", text[start:end]))
            # A claim in other words than its source is still known to come from there.
            name = found.file_name or passage.hit.file_name
            parts += [text[shown:end], replace(found, file_name=name)]
            shown = end
        return self._show([*parts, text[shown:]])

    def retract(self) -> bool:
        """Take back what was shown; return whether there was anything."""
        had, self.text, self.citations = bool(self.text), "", []
        return had

    def repaired(self, raw: str) -> VerifiedAnswer | None:
        """Return the answer as it was written once more, None unless more of its quotes hold."""
        again = AnswerWriter(self.passages)
        again.say(self.own)
        again.feed(raw)
        again.finish()
        is_better = len(again.failed) < len(self.failed)
        return again.result() if is_better and again.citations and not again.is_empty else None

    def result(self, outcome: str = "answered") -> VerifiedAnswer:
        """Return the answer as it is shown."""
        return VerifiedAnswer(self.text, tuple(self.citations), outcome)

    def _read(self, piece: str, *, is_last: bool) -> list[Part]:
        parts: list[Part] = [
            part if isinstance(part, str) else self._checker.check(part)
            for part in self._reader.feed(piece, is_last=is_last)
        ]
        return self._show(self._whole_sentences(parts, is_last=is_last) if self._drops else parts)

    def _show(self, parts: Iterable[Part]) -> list[Part]:
        shown: list[Part] = []
        for part in parts:
            if isinstance(part, Citation):
                if self._marks == "hidden":
                    continue
                if self._marks == "numbered":
                    mark = f"[{part.number}]"
                    self.text += mark
                    shown.append(mark)
                else:
                    self.spans.append(self._span(part.claim.strip()))
                self.citations.append(part)
                shown.append(part)
            elif part:
                self.text += part
                shown.append(part)
        return shown

    def _span(self, claim: str) -> tuple[int, int]:
        # A claim ends where its mark was, but for some blanks.
        end = len(self.text.rstrip())
        return (end - len(claim) if self.text.endswith(claim, 0, end) else end), end

    def _whole_sentences(self, parts: Iterable[Part], *, is_last: bool) -> list[Part]:
        for part in parts:
            if isinstance(part, str):
                self._held += part
            else:
                self._cited.append((len(self._held), part))
        ends = list(sentence_ends(self._held)) if self._held else []
        # Behind the last end more of the same sentence, or its mark, may come.
        out: list[Part] = []
        for start, end in pairwise([0, *ends[:-1]]):
            out += self._sentence(end - start)
        return out + self._sentence(len(self._held)) if is_last else out

    def _sentence(self, end: int) -> list[Part]:
        """Take the held text up to ``end``; return what is shown of it."""
        cited = [(at, one) for at, one in self._cited if at <= end]
        parts: list[Part] = []
        start = 0
        for at, citation in cited:
            parts += [self._held[start:at], citation]
            start = at
        parts.append(self._held[start:end])
        self._held = self._held[end:]
        self._cited = [(at - end, one) for at, one in self._cited if at > end]
        if failed_citations(one for _, one in cited):
            self.n_dropped += 1
            return []
        return parts


def verify_answer(
    raw: str, passages: Sequence[Passage], *, is_strict: bool = False
) -> VerifiedAnswer:
    """Return a text that was written already, with ``[n]`` for its n-th citation.

    A citation that nothing supports is kept, with the verdict unknown.
    """
    writer = AnswerWriter(passages, is_strict=is_strict)
    writer.feed(raw)
    writer.finish()
    return writer.result()
