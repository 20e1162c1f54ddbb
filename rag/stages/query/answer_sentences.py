"""Answer sentence selection: scores the sentences of passages by how likely they answer a question.

The question's words by their rarity, in the sentence, in those before it and in its passage; words
of the expected answer type that the question does not have; against headlines, questions and
sentences that only repeat the question. The weights are a conditional logit's, rounded, fitted by
benchmarks/extractive on the halves to tune on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag.stages.query.answer_type import AnswerType, expected_answer_type, typed_mentions
from rag.stages.text.terms import content_terms, index_terms

SHARE, BEFORE, PASSAGE = 5.0, 3.0, 3.0
TITLE, QUESTION = 2.0, 1.5
# What shares more than a half, or two thirds, of its words with the question, or has fewer than
# three, or six, words of its own.
ECHO, CLEAR_ECHO, FEW_WORDS = 1.9, 1.5, 2.0
TYPED: Mapping[AnswerType, float] = {
    "date": 1.6,
    "duration": 1.0,
    "number": 2.4,
    "person": 2.0,
    "place": 1.2,
    "name": 0.8,
}
# How much a word counts that stands in the sentence before, or the one before that.
_NEAR = (0.6, 0.4)
_ASKS = re.compile(r"\b(?:what|which|why|how)\b|什么|怎|哪|为何", re.I)
_STOPPED = re.compile(r"[。！？.!?…;；|][”\"'’)）」』]*\Z")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)、])\s|.*[:：]\s*\S")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class SourceSentence:
    """A sentence of a passage, the ``rank``-th from 0; ``place`` counts the passage's sentences."""

    doc_id: str
    rank: int
    passage: str
    text: str
    place: int = 0

    @cached_property
    def terms(self) -> Mapping[str, int]:
        """Return the search terms of the sentence."""
        return index_terms(self.text)

    @cached_property
    def content(self) -> Sequence[str]:
        """Return its terms without stop words."""
        return tuple(content_terms(self.text))


class SentenceScorer:
    """Scores the sentences of one question's passages."""

    def __init__(self, question: str, sentences: Sequence[SourceSentence]) -> None:
        self.question, self.sentences = question, sentences
        self._asked = content_terms(question)
        self._type = expected_answer_type(question)
        self._told = typed_mentions(self._type, question)
        self._digits = set(_DIGITS.findall(question))
        self._is_asking = bool(self._type) or bool(_ASKS.search(question))
        n = len(sentences)
        self._weights = {
            term: weight
            * math.log(1 + (n + 1) / (sum(term in one.terms for one in sentences) + 0.5))
            for term, weight in self._asked.items()
        }
        self._whole = sum(self._weights.values()) or 1.0
        self.shares = [self._share(one.terms) for one in sentences]

    def scores(self) -> list[float]:
        """Return the score of each sentence; more is better."""
        passages: dict[int, set[str]] = {}
        places: dict[tuple[int, int], SourceSentence] = {}
        for one in self.sentences:
            passages.setdefault(one.rank, set()).update(one.terms)
            places[one.rank, one.place] = one
        whole = {rank: self._share(terms) for rank, terms in passages.items()}
        found = []
        for one, share in zip(self.sentences, self.shares, strict=True):
            near = [places.get((one.rank, one.place - n)) for n in (1, 2)]
            before = self._share_before(one, [other.terms if other else {} for other in near])
            score = SHARE * share + BEFORE * before + PASSAGE * whole[one.rank]
            found.append(score + self._by_kind(one))
        return found

    def _share(self, terms: Mapping[str, int] | set[str]) -> float:
        return sum(value for term, value in self._weights.items() if term in terms) / self._whole

    def _share_before(self, one: SourceSentence, near: Sequence[Mapping[str, int]]) -> float:
        """Return how much of what a sentence lacks stands in those before it."""
        total = 0.0
        for term, value in self._weights.items():
            if term not in one.terms:
                shares = (by for by, terms in zip(_NEAR, near, strict=True) if term in terms)
                total += value * max(shares, default=0.0)
        return total / self._whole

    def _by_kind(self, one: SourceSentence) -> float:
        """Return what speaks for a sentence by what it is, and against it."""
        has_type = bool(typed_mentions(self._type, one.text) - self._told)
        score = TYPED.get(self._type, 0.0) * has_type
        if one.text.rstrip()[-1:] in ("?", "？"):
            score -= QUESTION
        elif not _STOPPED.search(one.text.rstrip()) and not _ITEM.match(one.text):
            score -= TITLE
        is_told = has_type and self._type in ("date", "number", "duration")
        return score if is_told or not self._is_asking else score - self._echo(one)

    def _echo(self, one: SourceSentence) -> float:
        """Return what a sentence loses that says hardly more than the question."""
        n_asked = sum(term in self._asked for term in one.content)
        share, n_new = n_asked / max(1, len(one.content)), len(one.content) - n_asked
        lost = ECHO * (share > 0.5) + CLEAR_ECHO * (share > 0.65)
        return lost + FEW_WORDS * ((n_new < 3) + (n_new < 6))
