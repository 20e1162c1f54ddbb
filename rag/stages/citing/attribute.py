"""Attribution: the source sentences that say what a sentence of an answer says.

A sentence goes to the source sentences that hold most of its token n-grams, weighted by rarity:
words and their pairs for Latin script, pairs of characters where words are not parted by spaces.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

from Stemmer import Stemmer

from rag.stages.prompting.context import Passage
from rag.stages.text.normalize import normalize_quote
from rag.stages.text.sentences import sentence_spans

# One more sentence of the source must explain so much more of the claim.
_GAIN = 0.08
_MAX_SENTENCES = 3
_MIN_SHARED = 2
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(
    rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_])+(?:(?:[.,'’-]|(?<=[０-９])[，．])(?:(?![{_CJK}])[^\W_])+)*"
)
_THOUSANDS = re.compile(r",(?=\d{3})")

Gram = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Attribution:
    """Where a claim is said: ``text[start:end]`` of a passage's hit, whole sentences.

    ``score`` is the share of the claim's n-grams found there, 0 to 1.
    """

    passage: Passage
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        """Return the sentences."""
        return self.passage.hit.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class IndexedSentence:
    """A sentence of a passage, ``text[start:end]`` of its hit, with its n-grams."""

    passage: Passage
    start: int
    end: int
    grams: frozenset[Gram]

    @property
    def text(self) -> str:
        """Return the sentence."""
        return self.passage.hit.text[self.start : self.end]


class SourceIndex:
    """The sentences of all passages by their n-grams; each passage is read once."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.sentences = [
            IndexedSentence(passage, start, end, claim_grams(passage.hit.text[start:end]))
            for passage in passages
            for start, end in passage_sentences(passage.hit.text)
        ]

    def best(self, claim: str, within: Passage | None = None) -> Attribution | None:
        """Return the run of sentences that holds most of a claim, ``within`` one passage or any.

        None where nothing holds two of its n-grams.
        """
        grams = claim_grams(claim)
        shared = [grams & one.grams for one in self.sentences]
        n_holders = Counter(chain.from_iterable(shared))
        n = len(shared)
        weights = {gram: math.log(1 + (n + 1) / (n_holders[gram] + 0.5)) for gram in grams}
        held = {
            place: sum(weights[gram] for gram in found)
            for place, found in enumerate(shared)
            if found and (within is None or self.sentences[place].passage is within)
        }
        if not held:
            return None
        best = max(held, key=lambda place: (held[place], -place))
        if len(shared[best]) < min(_MIN_SHARED, len(grams)):
            return None
        return self._grown(best, shared, weights)

    def _grown(
        self, best: int, shared: Sequence[frozenset[Gram]], weights: Mapping[Gram, float]
    ) -> Attribution:
        first, last, have, total = best, best, shared[best], sum(weights.values())
        while last - first + 1 < _MAX_SENTENCES:
            gains = [
                (sum(weights[gram] for gram in shared[place] - have), place)
                for place in (first - 1, last + 1)
                if self._is_beside(place, best)
            ]
            gain, place = max(gains, default=(0.0, 0))
            if gain < _GAIN * total:
                break
            have |= shared[place]
            first, last = min(first, place), max(last, place)
        score = sum(weights[gram] for gram in have) / total
        start, end = self.sentences[first].start, self.sentences[last].end
        return Attribution(self.sentences[best].passage, start, end, score)

    def _is_beside(self, place: int, of: int) -> bool:
        is_there = 0 <= place < len(self.sentences)
        return is_there and self.sentences[place].passage is self.sentences[of].passage


@lru_cache(maxsize=64)
def passage_sentences(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of a passage stand."""
    return sentence_spans(text)


def claim_tokens(text: str) -> list[tuple[int, int, str]]:
    """Return where each token of a text stands, and its stem."""
    return [(*match.span(), _stem(match[0])) for match in _TOKEN.finditer(text)]


@lru_cache(maxsize=4096)
def claim_grams(text: str) -> frozenset[Gram]:
    """Return the n-grams by which a claim and its source are compared."""
    tokens = [_stem(token) for token in _TOKEN.findall(text)]
    words = {token for token in tokens if len(token) > 2 or token.isdigit()}
    return frozenset(words.union(pairwise(tokens)))


@lru_cache(maxsize=65536)
def _stem(token: str) -> str:
    folded = normalize_quote(token).text
    if folded[:1].isdigit():
        return _THOUSANDS.sub("", folded)
    if not folded.isascii() or not folded.isalpha():
        return folded
    # Stemmer objects keep state between calls and are not safe to share between threads.
    stem: str = Stemmer("english", 0).stemWord(folded)
    return stem
