"""Restated questions: what a statement adds to the question that it answers, and where that stands.

An answer in a whole sentence repeats the question, whose words its source need not have; what
answers it are the words beside those. They are looked for in one sentence that speaks of what was
asked. Figures, codes and denials are never taken from the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from rag.stages.citing.attribute import Attribution, Gram, SourceIndex, claim_tokens
from rag.stages.citing.quantities import NUMERALS, Quantity, read_figures
from rag.stages.prompting.context import Passage
from rag.stages.text.terms import STOP_WORDS, is_han, segment_han

# So many of a question's words make a statement one that restates it.
_RESTATES = 0.5
# What the sentence of an answer must have of the question's weight: by itself, together with the
# one before it, and of what the best sentence has. Measured with benchmarks/grounding on the halves
# to tune on, as is the next.
_SHARE, _SHARE_WITH_LEAD, _OF_BEST = 0.1, 0.15, 0.6
# An answer that adds nothing says yes or no: so much of the question stands in its sentence.
_SHARE_OF_ALL = 0.6
# So many of the words that a statement adds must stand there; fewer where it adds many of them.
_ADDED, _ADDED_OF_MANY, _MANY = 0.8, 0.6, 8
_ASKS_FIGURE = re.compile(
    r"\bhow (?:many|much|old|far|tall|high|long|often)\b|\bwhen\b"
    r"|\b(?:what|which) (?:year|date|day|month|century|decade|number|percentage)\b"
    r"|多少|几|多[久大长高远重]|何时|什么时[候间]|哪一?[年天日月]|百分之",
    re.I,
)
_LOOSE_FIGURE = re.compile(
    r"[年月日天周季代时期半双每]|\b(?:half|both|several|none?|many|few|most|all|once|twice|half"
    r"|(?:dai|week|month|year|hour)ly|annual|spring|summer|autumn|winter)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class AddedWords:
    """What a statement says beside the question: its n-grams, figures and codes, and as written.

    The codes are those of the whole statement.
    """

    grams: frozenset[Gram]
    figures: Sequence[Quantity]
    codes: frozenset[str]
    text: str

    @property
    def has_figure(self) -> bool:
        """Return whether they say how many, how long or when."""
        is_named = any(word in NUMERALS for word in re.findall(r"[a-z]+|\w", self.text.lower()))
        return bool(self.figures) or is_named or bool(_LOOSE_FIGURE.search(self.text))

    @property
    def are_many(self) -> bool:
        """Return whether they are more than what answers: a sentence with much of its own."""
        return len(self.grams) >= _MANY

    def stand_in(self, grams: frozenset[Gram], text: str) -> bool:
        """Return whether a sentence with these n-grams has nearly all words, and every figure."""
        if not (self.grams or self.figures):
            # A sign, or a word of two letters, is none of the n-grams.
            folded = text.casefold()
            return all(part in folded for part in self.text.casefold().split())
        least = _ADDED_OF_MANY if self.are_many else _ADDED
        if len(self.grams & grams) < least * len(self.grams):
            return False
        figures = read_figures(text)
        told = (*figures.quantities, *figures.loose)
        return all(any(one.agrees(other) for other in told) for one in self.figures)


class RestatedQuestion:
    """A question, whose words answers repeat."""

    def __init__(self, question: str) -> None:
        stems = [stem for *_, stem in claim_tokens(question)]
        self._stems, self._pairs = frozenset(stems), frozenset(pairwise(stems))
        self._asks_figure = bool(_ASKS_FIGURE.search(question))
        # Each word by its n-grams: a stem, or the pairs of a word in Han.
        self._words = tuple(dict.fromkeys(_words(question)))

    def added(self, claim: str) -> AddedWords | None:
        """Return what a claim adds, nothing to a yes or no; None where it restates no question."""
        if not self._words:
            return None
        tokens = claim_tokens(claim)
        stems = [stem for *_, stem in tokens]
        grams = {*stems, *pairwise(stems)}
        n_held = sum(grams.issuperset(word) for word in self._words)
        if n_held < _RESTATES * len(self._words):
            return None
        given = [pair in self._pairs for pair in pairwise(stems)]
        is_own = [
            not any(given[max(0, at - 1) : at + 1])
            if _is_sign(stem)
            else stem not in self._stems and claim[start:end].lower() not in STOP_WORDS
            for at, (start, end, stem) in enumerate(tokens)
        ]
        runs = [list(run) for own, run in groupby(range(len(tokens)), is_own.__getitem__) if own]
        added = {stems[at] for run in runs for at in run if _is_word(stems[at])}
        signs = (pairwise(stems[at] for at in run) for run in runs)
        pairs = {pair for run in signs for pair in run if all(map(_is_sign, pair))}
        text = " ".join(claim[tokens[run[0]][0] : tokens[run[-1]][1]] for run in runs)
        figures = read_figures(text).quantities
        return AddedWords(frozenset({*added, *pairs}), figures, read_figures(claim).codes, text)

    def is_answered_by(self, added: AddedWords) -> bool:
        """Return whether words can be what is asked for: who asks how many is told a figure."""
        return not (self._asks_figure and added.text) or added.has_figure

    def find(
        self, added: AddedWords, index: SourceIndex, within: Passage | None = None
    ) -> Attribution | None:
        """Return the sentence that says what was added, and speaks most of what was asked."""
        sentences = index.sentences
        held = [{word for word in self._words if one.grams.issuperset(word)} for one in sentences]
        n_holders = {word: sum(word in one for one in held) for word in self._words}
        weights = {word: math.log(1 + (len(held) + 1) / (n + 0.5)) for word, n in n_holders.items()}
        total = sum(weights.values())
        shares = [sum(map(weights.__getitem__, words)) / total for words in held]
        least = max(_SHARE if added.text else _SHARE_OF_ALL, _OF_BEST * max(shares, default=0.0))
        found = list[Attribution]()
        for at, (one, share) in enumerate(zip(sentences, shares, strict=True)):
            if share < least or within not in (None, one.passage):
                continue
            has_lead = at > 0 and sentences[at - 1].passage is one.passage
            known = held[at] | (held[at - 1] if has_lead else set())
            span = Attribution(one.passage, one.start, one.end, share)
            if (
                sum(map(weights.__getitem__, known)) >= _SHARE_WITH_LEAD * total
                and added.stand_in(one.grams, span.text)
                and added.codes <= _codes(one.passage)
            ):
                found.append(span)
        return max(found, key=lambda span: span.score, default=None)


def _codes(passage: Passage) -> frozenset[str]:
    hit = passage.hit
    return read_figures("\n".join((hit.file_name, *hit.heading_path, hit.text))).codes


def _words(question: str) -> Iterator[tuple[Gram, ...]]:
    """Yield the n-grams of each word that is no stop word."""
    tokens = claim_tokens(question)
    for is_han_run, run in groupby(tokens, key=lambda token: _is_sign(token[2])):
        if is_han_run:
            words = segment_han("".join(stem for *_, stem in run))
            yield from (
                tuple(pairwise(word)) for word in words if len(word) > 1 and word not in STOP_WORDS
            )
        else:
            for start, end, stem in run:
                if question[start:end].lower() not in STOP_WORDS and _is_word(stem, digits=True):
                    yield (stem,)


def _is_sign(stem: str) -> bool:
    """Return whether a token is a character of a script that parts no words."""
    return len(stem) == 1 and is_han(stem)


def _is_word(stem: str, *, digits: bool = False) -> bool:
    return (
        stem.isdigit() if digits and stem[0].isdigit() else len(stem) > 2 and not stem[0].isdigit()
    )
