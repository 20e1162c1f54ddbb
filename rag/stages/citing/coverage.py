"""Coverage: the parts of a sentence whose words its source does not have.

Shares of a whole sentence hide that one half of it is invented. Such a half is one long stretch,
or a clause of its own, while other words for the same lie scattered among those of the source.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby, pairwise

from rag.stages.citing.attribute import Gram, claim_tokens
from rag.stages.citing.discourse import OF_SOURCES
from rag.stages.citing.quantities import NUMERALS
from rag.stages.text.terms import STOP_WORDS, is_han
from rag.stages.text.units import UNITS

# Two characters of Han are a word. A word of the source takes back half of one without.
_HALF = 0.5
_BOUNDARY = re.compile(
    r"[,，;；:：—]|\b(?:and|but|because|which|who|whose|while|since|although|unless|before|after|so"
    r"|if|in order)\b|并且|而且|因为|所以|因此|但是|此外|以便|除非|其中",
    re.I,
)


@dataclass(frozen=True, slots=True)
class CoverageLimits:
    """How many words without a source count: of a stretch, and of a clause that has no other.

    ``share`` is the least part of all words that the source must have.
    """

    stretch: float
    clause: float
    share: float = 0.0


Word = tuple[int, int, float]


def uncovered_parts(claim: str, source: Set[Gram], limits: CoverageLimits) -> Iterator[str]:
    """Yield what a source's n-grams do not cover: the longest stretch of a claim, whole clauses.

    That is all of it where too few of its words are there. Numbers and units do not count: they
    are compared as values.
    """
    words = list(_weighed_words(claim, source))
    n_held = -sum(min(0.0, weight) for *_, weight in words) / _HALF
    n_lacking = sum(max(0.0, weight) for *_, weight in words)
    if n_lacking and n_held < limits.share * (n_held + n_lacking):
        yield claim
    if n_lacking < min(limits.stretch, limits.clause):
        return
    ends = [match.start() for match in _BOUNDARY.finditer(claim)]
    words = _without_asides(words, claim)
    stretch = _longest_stretch(words, limits.stretch)
    clauses = (list(one) for _, one in groupby(words, key=lambda word: bisect(ends, word[0])))
    whole = (one for one in clauses if _sum_lacking(one) >= limits.clause)
    for part in filter(None, (stretch, *whole)):
        yield claim[part[0][0] : part[-1][1]]


def _sum_lacking(clause: Sequence[Word]) -> float:
    """Return how many words a clause has if the source has none of them, else 0."""
    weights = [weight for *_, weight in clause]
    return sum(weights) if min(weights) > 0 else 0.0


def _longest_stretch(words: Sequence[Word], least: float) -> Sequence[Word]:
    """Return the words in a row with the greatest sum; none below ``least``."""
    total = most = 0.0
    begin = first = last = 0
    for at, (*_, weight) in enumerate(words):
        if total <= 0:
            begin, total = at, 0.0
        total += weight
        if total > most:
            most, first, last = total, begin, at
    return words[first : last + 1] if most >= least else ()


def _without_asides(words: Sequence[Word], claim: str) -> list[Word]:
    spans = [m.span() for pattern in (OF_SOURCES, _BOUNDARY) for m in pattern.finditer(claim)]
    skipped = {at for span in spans for at in range(*span)}
    return [word for word in words if word[0] not in skipped]


def _weighed_words(claim: str, source: Set[Gram]) -> Iterator[Word]:
    """Yield where each word stands: above 0 the source lacks it, below it has it."""
    tokens = claim_tokens(claim)
    pairs = [pair in source for pair in pairwise(stem for *_, stem in tokens)]
    for at, (start, end, stem) in enumerate(tokens):
        if not _counts(claim[start:end].lower(), stem):
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
