"""Statement verdicts: each sentence of an answer held against the passages it was written from.

A sentence is cited (its quote holds and does not contradict it), attributed (no citation, but a
passage says it), contradicted or unsupported. What claims nothing (greetings, headings, questions,
refusals) has no verdict. Rules over words, no model: what a passage says of itself counts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from rag.core.hits import TOOL
from rag.core.types import HOLDING_VERDICTS, Citation, StatementVerdict
from rag.stages.citing.attribute import (
    Attribution,
    Gram,
    SourceIndex,
    claim_grams,
    passage_sentences,
)
from rag.stages.citing.contradict import contradiction, has_other_polarity
from rag.stages.citing.coverage import CoverageLimits, uncovered_parts
from rag.stages.citing.discourse import is_courtesy, strip_transitions
from rag.stages.citing.quantities import read_figures
from rag.stages.citing.restated import AddedWords, RestatedQuestion
from rag.stages.citing.table_claims import TableFinding, judge_by_records, judge_by_tables
from rag.stages.prompting.context import Passage
from rag.stages.text.normalize import to_simplified
from rag.stages.text.sentences import sentence_ends
from rag.stages.text.tables import TextTable, read_records
from rag.stages.text.terms import is_han

# A longer sentence is judged in pieces: whoever writes without a stop costs no more than others.
MAX_STATEMENT = 2000
# The share of a sentence's n-grams, weighted by rarity, that its source must hold. Measured with
# benchmarks/grounding on the halves to tune on.
ATTRIBUTED = 0.3
# From here on a sentence speaks of the same, so that another number contradicts.
SPEAKS_OF = 0.35
# Below it a sentence is worded freely, and held only if the source has the words on which it turns.
_NEAR_VERBATIM = 0.4
# What a sentence may have that its source lacks; where it is quoted, more: people see both.
_UNCITED = CoverageLimits(stretch=2.5, clause=2, share=0.6)
_CITED = CoverageLimits(stretch=5, clause=2.5)
_MOST = CoverageLimits(stretch=inf, clause=inf, share=0.4)
# What is missing in one source may be said by another.
_SAID_ELSEWHERE = 0.5
# A run of sentences that holds so much of an answer holds what it adds to its question.
_SAYS_ALL = 0.7
# Enough n-grams to judge what stands behind a citation.
_MIN_GRAMS = 8

_MARKUP = re.compile(
    r"[*`~]+|(?<!\w)_+|_+(?!\w)|^\s*(?:[-+•>]\s+|#+\s*|\(?\d{1,3}[.)、]\s*)+", re.M
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*\n]{1,80}\*\*\s*[:：]?\s*$)")
_NUMBERING = re.compile(r"^\W*\d{1,2}(?:\.\d{1,2})*[.)、]?\s")
_LEAD_IN = re.compile(
    r"\b(?:following|below|here(?:'s| is| are)?|steps?|as follows|summary|answer|according to)\b"
    r"|以下|如下|下面|步骤|回答|答案|总结|根据|包括",
    re.I,
)
_REFUSAL = re.compile(
    r"\b(?:i|we) (?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|am (?:un|not )able to)"
    r" (?:\w+ )?(?:know|answer|find|determine|tell|say|confirm|provide|verify)"
    r"|\b(?:do|does|did)(?: not|n['’]t) (?:\w+ )?(?:mention|say|state|contain|provide|specify"
    r"|include|cover|address|describe|answer|give|tell|have (?:any )?information)"
    r"|\b(?:is|are|was|were)(?: not|n['’]t) (?:\w+ )?(?:mentioned|stated|specified|provided"
    r"|included|covered|described|found|available|given"
    r"|in the (?:sources?|documents?|context|passages?))"
    r"|\b(?:no|nothing) .{0,60}\b(?:found|mentioned|available|provided|given|stated)\b"
    r"|\bnot enough information\b|\bunknown to me\b"
    r"|\bno (?:relevant |specific )?(?:information|mention|answer|details?)\b"
    r"|\b(?:could|can)(?: ?not|n['’]t) be (?:found|answered|determined|verified)\b"
    r"|(?:我|我们)?(?:不知道|不清楚|不确定)"
    r"|(?:没有|没|未能?|无法)(?:\w{0,6})(?:找到|提到|提及|提供|说明|给出|涉及|包含|查到|回答|确定"
    r"|得知|确认|获取|记载)"
    r"|(?:资料|文档|文件|上下文|来源|知识库|信息)(?:中|里|内)?(?:并?没有|未|无)"
    r"|无(?:相关|此)\w{0,4}信息",
    re.I,
)
_TURN = re.compile(r"[;；]|[,，]?\s*\b(?:but|however|instead)\b|[,，]?(?:但是?|不过|然而|而是)")
_CLAUSE, _SEPARATORS = re.compile(r"[,，]"), re.compile(r"[-_.]+")
_NAME = re.compile(r"(?<=[a-z,;:)] )[A-Z][a-z]{2,}(?:['’]s)?\b")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A sentence's verdict, why it fails, and what the passages say of it."""

    verdict: StatementVerdict
    reason: str = ""
    source: Attribution | None = None

    @property
    def holds(self) -> bool:
        """Return whether a source says it."""
        return self.verdict in ("cited", "attributed")


def first_sentence_end(text: str) -> int | None:
    """Return where the first sentence of a text ends that goes on; None while it is open.

    More text moves no end. A line break always ends a sentence: models do not wrap lines.
    """
    window = text[: MAX_STATEMENT + 1]
    line = window.find("\n") + 1
    window = window[:line] if line else window
    end = next(sentence_ends(window), len(window))
    if end < len(window) or line:
        return end
    return MAX_STATEMENT if len(text) > MAX_STATEMENT else None


def is_refusal(sentence: str) -> bool:
    """Return whether a sentence says that something was not found, and claims nothing else."""
    plain = to_simplified(sentence)
    if not _REFUSAL.search(plain):
        return False
    for part in _TURN.split(plain):
        if _REFUSAL.search(part):
            others = [one for one in _CLAUSE.split(part) if not _REFUSAL.search(one)]
            if any(character.isdigit() for one in others for character in one):
                return False
        elif len(claim_grams(part)) > 2:
            return False
    return True


def is_telling(text: str) -> bool:
    """Return whether a text has words enough to be found again by them."""
    return len(claim_grams(text)) >= _MIN_GRAMS


def claims_nothing(sentence: str) -> bool:
    """Return whether a sentence greets, asks, leads in or is a heading."""
    plain = _plain(sentence)
    if not any(map(str.isalnum, plain)):
        return True
    has_number = any(map(str.isdigit, _NUMBERING.sub("", plain)))
    if plain[-1] in "?？" or (_HEADING.match(sentence) and not has_number):
        return True
    if has_number:
        return False
    if plain[-1] in ":：" and (_LEAD_IN.search(plain) or len(claim_grams(plain)) <= 4):
        return True
    return is_courtesy(plain)


def _plain(sentence: str) -> str:
    """Return what a sentence claims, without markup and transitions."""
    return strip_transitions(_MARKUP.sub("", to_simplified(sentence)).strip()).strip()


def _findings(claim: str, passages: Sequence[Passage]) -> Iterator[tuple[Passage, TableFinding]]:
    """Yield what the tables of each passage say of a claim, then its records of each kind."""
    records: dict[str, list[tuple[Passage, TextTable]]] = {}
    for passage in passages:
        hit = passage.hit
        if found := judge_by_tables(claim, hit.text, hit.table_header):
            yield passage, found
        for record in read_records(hit.text):
            # Empty columns are left out, of rows of a database, and seldom is the first one.
            records.setdefault(record.columns[1], []).append((passage, record))
    for alike in records.values():
        if found := judge_by_records(claim, [record for _, record in alike]):
            yield alike[found.place][0], found


class StatementJudge:
    """Judges the sentences of one answer in their order; the passages are read once, if at all.

    Where a sentence restates the ``question``, what it adds must stand where that is spoken of.
    """

    def __init__(self, passages: Sequence[Passage], question: str = "") -> None:
        self._question = RestatedQuestion(question)
        self._passages = {passage.doc_id: passage for passage in passages}
        self._is_in_table = self._is_in_code = False
        self.is_refusal = False

    @property
    def takes_mark(self) -> bool:
        """Return whether a mark behind the last sentence would not break a table or code."""
        return not (self._is_in_table or self._is_in_code)

    def judge(
        self, sentence: str, citations: Sequence[Citation], tail: str = ""
    ) -> Judgement | None:
        """Return the verdict of a sentence with its citations; None where it claims nothing.

        ``sentence`` has no marks in it; ``tail`` is what stands behind the last of them.
        """
        was_in_table, self._is_in_table = self._is_in_table, sentence.lstrip().startswith("|")
        if _FENCE.match(sentence):
            self._is_in_code = not self._is_in_code
            return None
        holding = [one for one in citations if one.verdict in HOLDING_VERDICTS]
        claim = _plain(sentence)
        if holding:
            cited = self._cited(claim, holding)
            rest = _plain(tail)
            if cited.verdict != "cited" or not is_telling(rest):
                return cited
            # Behind its last citation a sentence says more: that is held by itself.
            more = self._uncited(rest)
            return cited if more.verdict == "attributed" else more
        if is_refusal(claim):
            self.is_refusal = True
            return None
        is_header = self._is_in_table and not was_in_table
        if not citations and (is_header or claims_nothing(sentence)):
            return None
        return self._uncited(claim)

    def attribute(self, claim: str, passage: Passage) -> Attribution | None:
        """Return where a passage says a claim, None where it does not or contradicts it."""
        plain = _plain(claim)
        judged = self._by_tables(plain, [passage]) or self._found(plain, passage)
        return judged.source if judged.holds else None

    @cached_property
    def index(self) -> SourceIndex:
        """Return the index of the passages' sentences."""
        return SourceIndex(list(self._passages.values()))

    @cached_property
    def _titles(self) -> frozenset[Gram]:
        """Return the n-grams of what the documents and their sections are called."""
        hits = [passage.hit for passage in self._passages.values()]
        names = (
            _SEPARATORS.sub(" ", one) for hit in hits for one in (hit.file_name, *hit.heading_path)
        )
        return claim_grams("\n".join(dict.fromkeys(names)))

    @cached_property
    def _letters(self) -> str:
        hits = [passage.hit for passage in self._passages.values()]
        named = [(hit.text, hit.file_name, *hit.heading_path) for hit in hits]
        return "\n".join(text for texts in named for text in texts).casefold()

    def _cited(self, claim: str, citations: Sequence[Citation]) -> Judgement:
        if not claim:
            return Judgement("cited")
        quoted = [(one, self._passages.get(one.doc_id)) for one in citations]
        told = self._by_tables(
            claim,
            [
                passage
                for one, passage in quoted
                if passage and ("|" in one.found or read_records(passage.hit.text))
            ],
        )
        if told is not None:
            return Judgement("cited") if told.holds else replace(told, source=None)
        source = "\n".join(dict.fromkeys(map(self._sentences, citations)))
        around = "\n".join(
            self._passages[one.doc_id].hit.text for one in citations if one.doc_id in self._passages
        )
        if "\n" in source or len(passage_sentences(source)) > 1:
            # Of a long quote those sentences that the claim takes up.
            found = self.index.best(claim, self._passages.get(citations[0].doc_id))
            is_quoted = found is not None and found.text in source
            source = found.text if found and is_quoted and found.score >= ATTRIBUTED else source
        if reason := contradiction(claim, source, around):
            return Judgement("contradicted", reason)
        if is_han(claim) == is_han(source):
            if self._has_foreign_name(claim):
                return Judgement("unsupported", "name")
            is_held = self._quotes_answer(claim, source)
            if is_held is None:
                is_held = not self._has_uncovered(claim, f"{source}\n{around}", _CITED)
            if not is_held:
                return Judgement("unsupported", "missing")
        return Judgement("cited")

    def _quotes_answer(self, claim: str, source: str) -> bool | None:
        """Return whether a source says what a claim adds to the question, or another one does.

        None where the claim adds nothing or much, or what nobody says: that may be the source in
        other words.
        """
        added = self._question.added(claim)
        if added is None or not added.text or added.are_many:
            return None
        if added.stand_in(claim_grams(source), source):
            return all(code in self._letters for code in added.codes) or None
        is_said = any(added.stand_in(one.grams, one.text) for one in self.index.sentences)
        return False if is_said else None

    def _uncited(self, claim: str) -> Judgement:
        told = self._by_tables(claim, self._passages.values())
        if told is not None and told.holds:
            return told
        judged = self._by_words(claim)
        # A row has the words of a claim whichever of its columns it is about.
        is_of_row = judged.source is not None and (
            judged.source.text.startswith("|") or bool(read_records(judged.source.passage.hit.text))
        )
        return judged if told is None or (judged.holds and not is_of_row) else told

    def _by_tables(self, claim: str, passages: Iterable[Passage]) -> Judgement | None:
        """Return what the first table that says a claim tells, else one that speaks against it."""
        against: Judgement | None = None
        for passage, one in _findings(claim, list(passages)):
            source = Attribution(passage, one.start, one.end, 1.0)
            if one.holds:
                return self._beside_cells(claim, source)
            against = against or Judgement("contradicted", one.reason, source)
        return against

    def _beside_cells(self, claim: str, source: Attribution) -> Judgement:
        """Return the verdict of a claim that has its cells, by what it says beside them."""
        text = source.passage.hit.text
        if is_han(claim) == is_han(f"{source.passage.hit.table_header}{text}"):
            if self._has_foreign_name(claim):
                return Judgement("unsupported", "name", source)
            if self._has_uncovered(claim, text, _CITED):
                return Judgement("unsupported", "missing", source)
        return Judgement("attributed", "", source)

    def _by_words(self, claim: str) -> Judgement:
        if result := self._worked_out(claim):
            return Judgement("attributed", "", result)
        return self._found(claim)

    def _found(self, claim: str, within: Passage | None = None) -> Judgement:
        """Return the verdict of a claim by what is most like it, ``within`` one passage or any."""
        judged = self._alike(claim, within)
        added = self._question.added(claim)
        return judged if added is None else self._as_answer(claim, added, judged, within)

    def _as_answer(
        self, claim: str, added: AddedWords, judged: Judgement, within: Passage | None
    ) -> Judgement:
        """Return the verdict of a claim that restates the question, by what it adds to that."""
        if not self._question.is_answered_by(added):
            return Judgement("unsupported", "missing", judged.source) if judged.holds else judged
        told = judged.source
        says_all = judged.holds and told is not None and told.score >= _SAYS_ALL
        is_near = bool(added.text) and (says_all or (judged.holds and added.are_many))
        if told is not None and is_near and added.stand_in(claim_grams(told.text), told.text):
            return judged
        found = self._question.find(added, self.index, within)
        if found is None:
            is_kept = not judged.holds or (says_all and not added.text)
            return judged if is_kept else Judgement("unsupported", "missing", told)
        if reason := contradiction(claim, found.text, found.passage.hit.text):
            is_turned = not added.text and reason in ("denial", "opposite")
            turned = Judgement("contradicted" if is_turned else "unsupported", reason, found)
            return turned if is_turned or judged.holds else judged
        if self._has_foreign_name(claim):
            return Judgement("unsupported", "name", found)
        return Judgement("attributed", "", found)

    def _alike(self, claim: str, within: Passage | None) -> Judgement:
        found = self.index.best(claim, within)
        if found is None or found.score < ATTRIBUTED:
            return Judgement("unsupported", "missing")
        if reason := contradiction(claim, found.text, found.passage.hit.text):
            is_of_it = found.score >= SPEAKS_OF
            return Judgement("contradicted" if is_of_it else "unsupported", reason, found)
        if self._has_foreign_name(claim):
            return Judgement("unsupported", "name", found)
        is_turned = found.score < _NEAR_VERBATIM and has_other_polarity(claim, found.text)
        # Words around it are the same, however many: most of what is said is not there.
        is_other = any(uncovered_parts(claim, claim_grams(found.text) | self._titles, _MOST))
        if is_turned or is_other or self._has_uncovered(claim, found.text, _UNCITED):
            return Judgement("unsupported", "missing", found)
        return Judgement("attributed", "", found)

    def _worked_out(self, claim: str) -> Attribution | None:
        """Return the result of a tool that has all numbers of a claim, if there are any."""
        said = read_figures(claim).quantities
        for passage in self._passages.values():
            if said and passage.hit.source == TOOL:
                told = read_figures(passage.hit.text).quantities
                if all(any(one.agrees(other) for other in told) for one in said):
                    return Attribution(passage, 0, len(passage.hit.text), 1.0)
        return None

    def _has_foreign_name(self, claim: str) -> bool:
        names = (match[0].removesuffix("'s").removesuffix("’s") for match in _NAME.finditer(claim))
        return any(name.casefold() not in self._letters for name in names)

    def _has_uncovered(self, claim: str, source: str, limits: CoverageLimits) -> bool:
        """Return whether a part of a claim stands neither in its source nor in another one."""
        parts = uncovered_parts(claim, claim_grams(source) | self._titles, limits)
        found = (self.index.best(part) for part in parts)
        return any(one is None or one.score < _SAID_ELSEWHERE for one in found)

    def _sentences(self, citation: Citation) -> str:
        """Return the whole sentences of the source in which a citation's words stand."""
        passage = self._passages.get(citation.doc_id)
        if passage is None or not citation.found:
            return citation.found or citation.quote
        text = passage.hit.text
        at = (citation.char_start or 0) - passage.hit.char_start
        if text[at : at + len(citation.found)] != citation.found:
            at = text.find(citation.found)
        if at < 0:
            return citation.found
        end = at + len(citation.found)
        touched = [span for span in passage_sentences(text) if span[0] < end and at < span[1]]
        return text[touched[0][0] : touched[-1][1]] if touched else citation.found
