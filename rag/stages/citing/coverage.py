"""Coverage: the parts of a sentence whose words its source does not have.

Shares of a whole sentence hide that one half of it is invented. Such a half is one long stretch,
or a clause of its own, while other words for the same lie scattered among those of the source.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import groupby, pairwise

from rag.stages.citing.attribute import Gram, claim_tokens
from rag.stages.citing.quantities import NUMERALS, UNITS
from rag.stages.text.terms import STOP_WORDS, is_han

# Two characters of Han are a word. A word of the source takes back half of one without.
_HALF = 0.5
# What a sentence says of its source, and not of the subject.
_OF_SOURCES = re.compile(
    r"\b(?:according|documents?|documentation|manuals?|guides?|texts?|passages?|sources?|context"
    r"|provided|sections?|pages?|stat(?:es?|ed)|mention(?:s|ed)?|says?|said|describe[sd]?|noted?"
    r"|example|namely)\b"
    r"|根据|按照|依据|文档|资料|文件|手册|指南|来源|上下文|所述|显示|指出|提到|说明|规定|例如",
    re.I,
)
_BOUNDARY = re.compile(
    r"[,，;；:：—]|\b(?:and|but|because|which|who|whose|while|since|although|unless|before|after|so"
    r"|if|in order)\b|并且|而且|因为|所以|因此|但是|此外|以便|除非|其中",
    re.I,
)


@dataclass(frozen=True, slots=True)
class CoverageLimits:
    """How many words without a source count: of a stretch, and of a clause that has no other."""

    stretch: float
    clause: float


def uncovered_parts(claim: str, source: Set[Gram], limits: CoverageLimits) -> Iterator[str]:
    """Yield the longest stretch of a claim and the clauses that a source's n-grams do not cover.

    Numbers and units do not count: they are compared as values.
    """
    words = list(_weighed_words(claim, source))
    total = most = 0.0
    begin = first = last = 0
    for at, (*_, weight) in enumerate(words):
        if total <= 0:
            begin, total = at, 0.0
        total += weight
        if total > most:
            most, first, last = total, begin, at
    if most >= limits.stretch:
        yield claim[words[first][0] : words[last][1]]
    ends = [match.start() for match in _BOUNDARY.finditer(claim)]
    for _, group in groupby(words, key=lambda word: bisect(ends, word[0])):
        clause = list(group)
        weights = [weight for *_, weight in clause]
        if min(weights) > 0 and sum(weights) >= limits.clause:
            yield claim[clause[0][0] : clause[-1][1]]


def _weighed_words(claim: str, source: Set[Gram]) -> Iterator[tuple[int, int, float]]:
    """Yield where each word stands: above 0 the source lacks it, below it has it."""
    aside = [
        match.span() for pattern in (_OF_SOURCES, _BOUNDARY) for match in pattern.finditer(claim)
    ]
    skipped = {at for span in aside for at in range(*span)}
    tokens = claim_tokens(claim)
    stems = [stem for *_, stem in tokens]
    pairs = [pair in source for pair in pairwise(stems)]
    for at, (start, end, stem) in enumerate(tokens):
        if start in skipped or not _counts(claim[start:end].lower(), stem):
            continue
        if is_han(stem):
            is_held, weight = any(pairs[max(0, at - 1) : at + 1]), _HALF
        else:
            is_held, weight = stem in source, 1.0
        yield start, end, -_HALF * weight if is_held else weight


def _counts(word: str, stem: str) -> bool:
    if len(word) == 1:
        return is_han(word) and word not in NUMERALS
    is_short = len(stem) < 3
    return not (
        is_short or word in STOP_WORDS or word in UNITS or word in NUMERALS or word[0].isdigit()
    )
