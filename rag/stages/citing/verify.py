"""Citation verification: a verdict for each marker of an answer, while it is written.

A quote is looked for in the whole text of the hit, folded; what differs by more than typography
is altered, however little it is. Whoever wrote an answer, it ends in ``AnswerWriter.result``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rag.core.types import HOLDING_VERDICTS, Citation, Groundedness, Statement, Verdict
from rag.stages.citing.attribute import Attribution
from rag.stages.citing.citation_markers import Marker, MarkerReader
from rag.stages.citing.locate import (
    QuotePlace,
    closest_quote,
    find_abridged,
    find_quote,
    quoted_parts,
    quoted_words,
)
from rag.stages.citing.statements import (
    Judgement,
    StatementJudge,
    first_sentence_end,
)
from rag.stages.prompting.context import Passage
from rag.stages.text.normalize import NormalizedText, normalize_quote, normalize_quotes

_DOC_ID = re.compile(r"(?:doc[_-]?)?([0-9]{1,3})", re.I)
Marks = Literal["numbered", "documents", "spans", "hidden"]
Part = str | Citation


class CitationChecker:
    """The passages of one answer, each folded once and only when it is looked into."""

    def __init__(
        self,
        passages: Sequence[Passage],
        judge: StatementJudge,
        *,
        is_strict: bool = False,
        by_document: bool = False,
    ) -> None:
        self._judge, self._by_document = judge, by_document
        self._passages = {passage.doc_id: passage for passage in passages}
        self._folded: dict[str, NormalizedText] = {}
        self._is_strict = is_strict
        self._n = 0

    def check(self, marker: Marker) -> Citation:
        """Return the next numbered citation; without a quote its claim is taken for one."""
        return self._numbered(self._checked(marker))

    def _checked(self, marker: Marker) -> Citation:
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

    def attributed(self, claim: str, source: Attribution) -> Citation:
        """Return the next numbered citation, of a claim that was written without one."""
        citation = Citation(0, source.passage.doc_id, "", "verified", claim=claim)
        return self._numbered(_sourced(citation, source))

    def _numbered(self, citation: Citation) -> Citation:
        self._n += 1
        if not self._by_document:
            return replace(citation, number=self._n)
        match = _DOC_ID.fullmatch(citation.doc_id)
        return replace(citation, number=int(match[1])) if match else citation

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


def _sourced(citation: Citation, source: Attribution) -> Citation:
    located = locate_citation(citation, source.passage, source.start, source.end)
    return replace(located, quote=source.text, verdict="verified")


def failed_citations(citations: Iterable[Citation]) -> list[Citation]:
    """Return the citations whose quote no source holds as it stands."""
    return [citation for citation in citations if citation.verdict not in HOLDING_VERDICTS]


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """An answer as it is shown, its citations with their verdicts, and what came of it.

    ``outcome`` answered: its sources say all of it; partial: they say some of it, or a limit was
    met; ungrounded: they say nothing of it; not_found: it says itself that nothing was found.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    outcome: str = "not_found"
    groundedness: Groundedness = field(default_factory=Groundedness)


# Of answers that rest on no source nothing is told of sources.
_JUDGED = frozenset({"answered", "partial", "ungrounded", "not_found"})
_OUTCOMES = {"grounded": "answered", "partly": "partial"}
# Without a quote that holds no answer is surer than this.
_DOUBTFUL = 0.5


def answer_confidence(confidence: float | None, answer: VerifiedAnswer) -> float | None:
    """Return how sure an answer is: the search's confidence by the share that its sources hold.

    Statements and quotes count alike: each that fails lowers it, and without a quote that holds
    it is 0.5 at most. None where the search tells none.
    """
    if confidence is None:
        return None
    n_failed = len(failed_citations(answer.citations))
    n_all = len(answer.groundedness.statements) + n_failed
    sure = confidence * answer.groundedness.n_found / n_all if n_all else confidence
    has_quote = n_failed < len(answer.citations)
    return round(sure if has_quote else min(sure, _DOUBTFUL), 3)


class AnswerWriter:
    """An answer while it is written: what is shown, what it cites, what its sources say of it.

    Each sentence is judged when it ends; one that a passage says without being cited is given its
    citation. ``marks`` numbered: each citation is shown as ``[n]``; documents: n is the number of
    its document, so that it means the same in several answers (0, which is not shown: it names
    none); spans: they are taken out, and ``spans`` says where in the text each claim stands, in
    code points; hidden: they are taken out with their citations. ``drops_failed`` holds numbered
    text back sentence by sentence and leaves out those that their sources do not hold:
    ``n_dropped`` counts them. ``is_strict`` takes a quote that is cut within its sentence for
    altered, even where a clause ends.

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
        self.statements: list[Statement] = []
        self.n_dropped = 0
        self._judge = StatementJudge(passages)
        by_document = marks == "documents"
        self._checker = CitationChecker(
            passages, self._judge, is_strict=is_strict, by_document=by_document
        )
        self._reader = MarkerReader()
        has_numbers = marks in ("numbered", "documents")
        self._marks, self._drops = marks, drops_failed and has_numbers
        # The open sentence, how much of it is shown, where it begins in the text, and where in it
        # each of its citations stands.
        self._open, self._n_shown, self._start = "", 0, 0
        self._cited = list[tuple[int, Citation]]()

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

    @property
    def unheld(self) -> list[Statement]:
        """Return the statements that no source says."""
        return [one for one in self.statements if not one.holds]

    @property
    def groundedness(self) -> Groundedness:
        """Return the verdicts of what was written so far."""
        return Groundedness(tuple(self.statements), self._judge.is_refusal)

    def feed(self, piece: str) -> list[Part]:
        """Take a piece of what the model writes; return what it lets go, in order."""
        self.raw += piece
        return self._read(self._reader.feed(piece))

    def finish(self) -> list[Part]:
        """Return what is left when the model ends; a tag left open ends with it."""
        shown = self._read(self._reader.feed("", is_last=True))
        return shown + self._close(len(self._open))

    def say(self, text: str) -> str:
        """Show words of our own."""
        self.own += text
        self.text += text
        self._start = len(self.text)
        return text

    def adopt(
        self, text: str, citations: Iterable[Citation], statements: Iterable[Statement] = ()
    ) -> None:
        """Show a text with marks whose citations and statements have their verdicts already."""
        begun = len(self.text)
        self.text += text
        self.citations += citations
        self.statements += [
            replace(one, start=begun + one.start, end=begun + one.end) for one in statements
        ]

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
        out = self._take([*parts, text[shown:]])
        return out + self._close(len(self._open))

    def retract(self) -> bool:
        """Take back what was shown; return whether there was anything."""
        had, self.text, self.citations, self.statements = bool(self.text), "", [], []
        self._judge.is_refusal, self._start = False, 0
        return had

    def repaired(self, raw: str) -> VerifiedAnswer | None:
        """Return the answer as it was written once more, None unless more of it holds."""
        marks: Marks = "documents" if self._marks == "documents" else "numbered"
        again = AnswerWriter(self.passages, marks=marks)
        again.say(self.own)
        again.feed(raw)
        again.finish()
        n_before, n_after = (len(one.failed) + len(one.unheld) for one in (self, again))
        is_better = n_after < n_before
        return again.result() if is_better and again.citations and not again.is_empty else None

    def result(self, outcome: str = "") -> VerifiedAnswer:
        """Return the answer as it is shown; ``outcome`` is said by its groundedness else."""
        told = outcome or _OUTCOMES.get(self.groundedness.verdict, self.groundedness.verdict)
        if told == "answered" and self.failed:
            told = "partial"
        is_judged = told in _JUDGED
        judged = self.groundedness if is_judged else Groundedness()
        return VerifiedAnswer(self.text, tuple(self.citations), told, judged)

    def _read(self, markers: Iterable[str | Marker]) -> list[Part]:
        return self._take(
            part if isinstance(part, str) else self._checker.check(part) for part in markers
        )

    def _take(self, parts: Iterable[Part]) -> list[Part]:
        """Add to the open sentence; return what is shown by it, sentence by sentence."""
        shown: list[Part] = []
        for part in parts:
            if isinstance(part, Citation):
                shown += self._let_go(len(self._open))
                self._cited.append((len(self._open), part))
                shown += [] if self._drops else self._mark(part)
            elif part:
                if self._ends_behind_mark() and not part[0].isspace():
                    shown += self._close(len(self._open))
                self._open += part
                while (end := first_sentence_end(self._open)) is not None:
                    shown += self._close(end)
                # The blank behind a sentence waits for the mark that it may get.
                shown += self._let_go(len(self._open.rstrip()))
        return shown

    def _ends_behind_mark(self) -> bool:
        """Return whether a citation stands last, behind the stop of its sentence."""
        if not self._cited or self._cited[-1][0] < len(self._open):
            return False
        whole = self._open.rstrip() + " "
        return first_sentence_end(f"{whole}A") == len(whole)

    def _let_go(self, end: int) -> list[Part]:
        """Show the open sentence up to ``end``, unless it is held back to be dropped."""
        return [] if self._drops else self._show(end)

    def _show(self, end: int) -> list[Part]:
        text = self._open[self._n_shown : end]
        self._n_shown = max(end, self._n_shown)
        self.text += text
        return [text] if text else []

    def _mark(self, citation: Citation, *, has_place: bool = True) -> list[Part]:
        """Show a citation where the text has come to; without a place it has no mark."""
        if self._marks == "hidden":
            return []
        self.citations.append(citation)
        if self._marks == "spans":
            self.spans.append(self._span(citation.claim.strip()))
            return [citation]
        mark = f"[{citation.number}]"
        # One document is cited twice in a row, or none is named.
        is_said = self._marks == "documents" and (
            not citation.number or self.text.rstrip().endswith(mark)
        )
        if is_said or not has_place:
            return [citation]
        self.text += mark
        return [mark, citation]

    def _span(self, claim: str) -> tuple[int, int]:
        # A claim ends where its mark was, but for some blanks.
        end = len(self.text.rstrip())
        return (end - len(claim) if self.text.endswith(claim, 0, end) else end), end

    def _close(self, end: int) -> list[Part]:
        """End the sentence ``open[:end]``: judge it; return what is shown by that."""
        sentence, cited = self._open[:end], [(at, one) for at, one in self._cited if at <= end]
        citations = [one for _, one in cited]
        judged = self._judge.judge(
            sentence, citations, tail=sentence[cited[-1][0] :] if cited else ""
        )
        shown: list[Part] = []
        if self._drops and (failed_citations(citations) or (judged and not judged.holds)):
            self.n_dropped += 1
        else:
            for at, citation in cited if self._drops else ():
                shown += self._show(at) + self._mark(citation)
            shown += self._show(len(sentence.rstrip()))
            if judged and judged.source and judged.verdict == "attributed" and not cited:
                citations = [self._checker.attributed(sentence.strip(), judged.source)]
                shown += self._mark(citations[0], has_place=self._judge.takes_mark)
            if judged:
                self._state(sentence, judged, citations)
            shown += self._show(end)
        self._open, self._n_shown = self._open[end:], 0
        self._cited = [(at - end, one) for at, one in self._cited if at > end]
        self._start = len(self.text)
        return shown

    def _state(self, sentence: str, judged: Judgement, citations: Sequence[Citation]) -> None:
        self.statements.append(
            Statement(
                self._start + len(sentence) - len(sentence.lstrip()),
                len(self.text.rstrip()),
                judged.verdict,
                tuple(one.number for one in citations if self._marks != "hidden"),
                judged.reason,
                judged.source.passage.doc_id if judged.source and not citations else "",
            )
        )


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
