"""Answer verification: a verdict for each marker and each sentence, while an answer is written.

Whoever wrote an answer, it ends in ``AnswerWriter.result``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rag.core.types import HOLDING_VERDICTS, Citation, Groundedness, Statement
from rag.stages.citing.attribute import Attribution
from rag.stages.citing.check_citation import CitationChecker, document_number, failed_citations
from rag.stages.citing.citation_markers import Marker, MarkerReader
from rag.stages.citing.statements import Judgement, StatementJudge, first_sentence_end
from rag.stages.prompting.context import Passage

Marks = Literal["numbered", "documents", "spans", "hidden"]
Part = str | Citation


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
    citation. ``question`` is what was asked, whose words an answer repeats. ``marks`` numbered:
    each citation is shown as ``[n]``; documents: n is the number of its document, so that it means
    the same in several answers (0, which is not shown: it names none); spans: they are taken out,
    and ``spans`` says where in the text each claim stands, in code points; hidden: they are taken
    out with their citations. ``drops_failed`` holds numbered text back sentence by sentence and
    leaves out those that their sources do not hold: ``n_dropped`` counts them. ``is_strict`` takes
    a quote that is cut within its sentence for altered, even where a clause ends.

    ``own`` are words of ours, ``raw`` those of the model with its markers. Whatever the pieces, the
    result is the same; offsets of citations are code points of the file's canonical text.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        question: str = "",
        marks: Marks = "numbered",
        drops_failed: bool = False,
        is_strict: bool = False,
    ) -> None:
        self.question = question
        self.passages, self.text, self.own, self.raw = passages, "", "", ""
        self.citations: list[Citation] = []
        self.spans: list[tuple[int, int]] = []
        self.statements: list[Statement] = []
        self.n_dropped = 0
        self._judge = StatementJudge(passages, question)
        self._checker = CitationChecker(passages, self._judge, is_strict=is_strict)
        self._reader = MarkerReader()
        has_numbers = marks in ("numbered", "documents")
        self._marks, self._drops = marks, drops_failed and has_numbers
        # The open sentence, how much of it is shown, where it begins in the text, and where in it
        # each of its citations stands.
        self._open, self._n_shown, self._start = "", 0, 0
        self._cited = list[tuple[int, Citation | Marker]]()
        # How many of them are shown, and how many were numbered in all.
        self._n_marked = self._n = 0
        # The element that is open, the sentences in it that wait for its citation, and that one.
        self._element: Marker | Citation | None = None
        self._waiting = list[tuple[int, Attribution]]()
        self._awaited: Citation | None = None

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
        return self._take(self._reader.feed_open(piece))

    def finish(self) -> list[Part]:
        """Return what is left when the model ends; a tag left open ends with it."""
        shown = self._take(self._reader.feed_open("", is_last=True))
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
        again = AnswerWriter(self.passages, question=self.question, marks=marks)
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

    def _take(self, parts: Iterable[Part | Marker]) -> list[Part]:
        """Add to the open sentence; return what is shown by it, sentence by sentence."""
        shown: list[Part] = []
        for part in parts:
            if isinstance(part, Marker) and part.begins:
                self._element = part
            elif not isinstance(part, str):
                shown += self._cite(part)
            elif part:
                if self._ends_behind_mark() and not part[0].isspace():
                    shown += self._close(len(self._open))
                self._open += part
                while (end := first_sentence_end(self._open)) is not None:
                    shown += self._close(end)
                # The blank behind a sentence waits for the mark that it may get.
                shown += self._let_go(len(self._open.rstrip()))
        return shown

    def _cite(self, part: Marker | Citation) -> list[Part]:
        """Take a citation into the open sentence; a bare one is checked when that ends."""
        at, shown = len(self._open), self._let_go(len(self._open))
        self._element = None
        if isinstance(part, Marker) and not part.is_bare:
            part = self._checker.check(part)
            shown += self._await(part)
        if isinstance(part, Marker) or self._holds:
            self._cited.append((at, part))
            return shown
        part = self._numbered(part)
        self._cited.append((at, part))
        self._n_marked += 1
        return shown + self._mark(part)

    @property
    def _holds(self) -> bool:
        """Return whether the open sentence waits for its end."""
        return self._drops or any(isinstance(one, Marker) for _, one in self._cited)

    def _ends_behind_mark(self) -> bool:
        """Return whether a citation stands last, behind the stop of its sentence."""
        if not self._cited or self._cited[-1][0] < len(self._open):
            return False
        whole = self._open.rstrip() + " "
        return first_sentence_end(f"{whole}A") == len(whole)

    def _let_go(self, end: int) -> list[Part]:
        """Show the open sentence up to ``end``, unless it is held back."""
        return [] if self._holds else self._show(end)

    def _show(self, end: int) -> list[Part]:
        text = self._open[self._n_shown : end]
        self._n_shown = max(end, self._n_shown)
        self.text += text
        return [text] if text else []

    def _numbered(self, citation: Citation) -> Citation:
        self._n += 1
        by_document = self._marks == "documents"
        number = document_number(citation.doc_id) if by_document else self._n
        if citation is self._awaited:
            for at, _ in self._waiting:
                told = replace(self.statements[at], verdict="cited", citations=(number,))
                self.statements[at] = told
            self._waiting, self._awaited = [], None
        return replace(citation, number=number)

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
        # A claim ends where its mark was, but for some blanks; one around its mark goes on.
        end = len(self.text.rstrip())
        at = (
            end - len(claim)
            if self.text.endswith(claim, 0, end)
            else self.text.find(claim, self._start)
        )
        return (at, at + len(claim)) if at >= 0 and claim else (end, end)

    def _close(self, end: int) -> list[Part]:
        """End the sentence ``open[:end]``: judge it; return what is shown by that."""
        sentence = self._open[:end]
        cited = self._settled(sentence)
        citations = [one for _, one in cited]
        judged = self._judge.judge(
            sentence, citations, tail=sentence[cited[-1][0] :] if cited else ""
        )
        shown: list[Part] = []
        if self._drops and (failed_citations(citations) or (judged and not judged.holds)):
            self.n_dropped += 1
            shown += self._cite_waiting() if self._awaited in citations else []
        else:
            citations = []
            for place, (at, citation) in enumerate(cited):
                if place >= self._n_marked:
                    citation = self._numbered(citation)
                    shown += self._show(at) + self._mark(citation)
                citations.append(citation)
            shown += self._show(len(sentence.rstrip()))
            if judged and judged.source and judged.verdict == "attributed" and not cited:
                if self._shares(judged.source):
                    self._waiting.append((len(self.statements), judged.source))
                else:
                    own = self._checker.attributed(sentence.strip(), judged.source)
                    citations = [self._numbered(own)]
                    shown += self._mark(citations[0], has_place=self._judge.takes_mark)
            if judged:
                self._state(sentence, judged, citations)
            shown += self._show(end)
        self._open, self._n_shown = self._open[end:], 0
        self._cited = [(at - end, one) for at, one in self._cited if at > end]
        self._n_marked = max(0, self._n_marked - len(cited))
        self._start = len(self.text)
        return shown

    def _settled(self, sentence: str) -> list[tuple[int, Citation]]:
        """Return the citations of a sentence that ends, each with its place; bare ones checked."""
        settled, before = list[tuple[int, Citation]](), 0
        for at, one in self._cited:
            if at > len(sentence):
                break
            if isinstance(one, Marker):
                one = self._checker.check_bare(one, sentence, before, at)
                at = len(sentence.rstrip()) if self._marks == "spans" else at
            settled.append((at, one))
            before = at
        return settled

    def _shares(self, source: Attribution) -> bool:
        """Return whether a sentence in an open element is said where the element's quote is."""
        if isinstance(self._element, Marker):
            self._element = self._checker.check(self._element)
        if self._element is None or self._element.doc_id != source.passage.doc_id:
            return False
        found = self._element.found
        start = source.passage.hit.text.find(found)
        return not found or (start < source.end and source.start < start + len(found))

    def _await(self, citation: Citation) -> list[Part]:
        """Let the sentences of an element that ends wait for its citation, if that holds."""
        if citation.verdict not in HOLDING_VERDICTS:
            return self._cite_waiting()
        self._awaited = citation if self._waiting else None
        return []

    def _cite_waiting(self) -> list[Part]:
        """Give the sentences that wait citations of their own."""
        shown: list[Part] = []
        for at, source in self._waiting:
            told = self.statements[at]
            own = self._numbered(self._checker.attributed(source.text, source))
            shown += self._mark(own, has_place=self._judge.takes_mark)
            self.statements[at] = replace(told, citations=(own.number,))
        self._waiting, self._awaited = [], None
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
    raw: str, passages: Sequence[Passage], *, question: str = "", is_strict: bool = False
) -> VerifiedAnswer:
    """Return a text that was written already, with ``[n]`` for its n-th citation.

    A citation that nothing supports is kept, with the verdict unknown.
    """
    writer = AnswerWriter(passages, question=question, is_strict=is_strict)
    writer.feed(raw)
    writer.finish()
    return writer.result()
