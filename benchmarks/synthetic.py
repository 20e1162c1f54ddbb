"""Synthetic corpus: chunks and queries with the statistics of real ones, from a seed.

Words are pieces of the e5 tokenizer's vocabulary, drawn by its own scores, which fall off as words
in real text do; documents have a topic and names of their own. The shares below were set so that
distinct terms, per chunk and over a growing collection, follow XQuAD (Chinese) and SciFact. Vectors
have the spectrum, the cosines to the nearest and the local dimension of SciFact's in e5's space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import rjieba
from numpy.typing import NDArray

from rag.providers.e5.weights import Weights, find_weights

DIM = 384
PER_DOCUMENT = 30
N_TOPICS, N_FIELDS = 4000, 20
PARTICLES = "的了是在和与及或之其也于以为而被把将对从到由就都又还并很更最不有这那一个中上下等所"


@dataclass(frozen=True, slots=True)
class MadePassage:
    """A made-up chunk of a document; ``vector`` has length 1."""

    document: int
    topic: int
    text: str
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Question:
    """A made-up query of 3 to 6 words, and a vector near its passage's."""

    text: str
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Mix:
    """Shares of a script's words: of the topic, of the document, made up, else of the language."""

    length: int
    joint: str
    topical: float
    own: float
    fresh: float
    n_names: int
    particles: float
    stops: float
    rare: float
    spread: float


_HAN = _Mix(270, "", 0.18, 0.56, 0.05, 80, 0.28, 0.42, 0.45, 3.5)
_LATIN = _Mix(670, " ", 0.28, 0.42, 0.010, 30, 0.85, 0.93, 0.72, 1.4)


class SyntheticCorpus:
    """Reproducible passages, ``per_document`` in a row of one document; every other one is Han."""

    def __init__(self, seed: int = 1, *, per_document: int = PER_DOCUMENT) -> None:
        self._rng = np.random.default_rng(seed)
        self._per_document = per_document
        self._tongues = (_Tongue(_HAN, self._rng), _Tongue(_LATIN, self._rng))
        # Variances of sentence embeddings fall off along their axes.
        self._scale = (np.arange(1, DIM + 1) ** -0.38).astype(np.float32)
        self._topics = self._rng.standard_normal((N_TOPICS, DIM)).astype(np.float32)
        self._fields = self._rng.standard_normal((N_FIELDS, DIM)).astype(np.float32)
        self._n_documents = 0

    def passages(self, n: int) -> Iterator[MadePassage]:
        """Yield ``n`` passages; a second call goes on with new documents."""
        while n > 0:
            topic = int(self._rng.integers(N_TOPICS))
            size = min(n, self._per_document)
            tongue = self._tongues[self._n_documents % 2]
            vectors = self._vectors(topic, size)
            for text, vector in zip(tongue.texts(self._rng, topic, size), vectors, strict=True):
                yield MadePassage(self._n_documents, topic, text, vector)
            self._n_documents += 1
            n -= size

    def question(self, passage: MadePassage) -> Question:
        """Return a query about ``passage``: words of it, mostly topical, and some common ones."""
        rng = self._rng
        is_han = bool(re.search(r"[\u4e00-\u9fff]", passage.text))
        found = rjieba.cut(passage.text) if is_han else re.findall(r"\w+", passage.text)
        words = sorted(
            {word for word in found if len(word) > (1 if is_han else 3) and word != "，"}
        )
        n = min(len(words), int(rng.integers(3, 6)))
        chosen = [words[i] for i in rng.choice(len(words), n, replace=False)]
        tongue = self._tongues[0 if is_han else 1]
        for _ in range(int(rng.integers(0, 3)) if n < 5 else 1):
            chosen.insert(int(rng.integers(len(chosen))), tongue.particle(rng))
        noise = 0.5 * rng.standard_normal(DIM).astype(np.float32) / DIM**0.5
        return Question(tongue.mix.joint.join(chosen), _unit(passage.vector + noise))

    def _vectors(self, topic: int, n: int) -> NDArray[np.float32]:
        """Return [n, DIM]: a field of knowledge, a topic of it, another one, document and chunk."""
        rng = self._rng
        field = topic % N_FIELDS
        aside = int(rng.integers(N_TOPICS // N_FIELDS)) * N_FIELDS + field
        centre = 0.55 * self._fields[field] + rng.uniform(0.1, 0.7) * self._topics[topic]
        centre += rng.uniform(0, 0.5) * self._topics[aside]
        centre += 0.40 * rng.standard_normal(DIM)
        chunks = 0.45 * rng.standard_normal((n, DIM))
        return _unit(((centre + chunks) * self._scale).astype(np.float32))


class _Tongue:
    def __init__(self, mix: _Mix, rng: np.random.Generator) -> None:
        self.mix = mix
        if mix.joint:
            particles, words, parts = _latin_words()
        else:
            particles, words, parts = _han_words()
        self._particles, self._words, self._parts = (
            np.array([word for word, _ in some], dtype=object) for some in (particles, words, parts)
        )
        self._particle_odds, self._word_odds = _cumulated(particles, 1), _cumulated(words, 1)
        self._rare_odds = _cumulated(words, mix.rare)
        self._part_odds = _cumulated(parts, 0.5)
        self._topics = self._words[_draw(rng, self._rare_odds, (N_TOPICS, 200))]

    def particle(self, rng: np.random.Generator) -> str:
        return str(self._particles[_draw(rng, self._particle_odds, 1)[0]])

    def texts(self, rng: np.random.Generator, topic: int, n: int) -> Iterator[str]:
        names = self._words[_draw(rng, self._rare_odds, self.mix.n_names)]
        own = np.stack([names, self._made_up(rng, self.mix.n_names)], axis=1).ravel()
        for _ in range(n):
            yield self._text(rng, self._topics[topic], own)

    def _text(
        self, rng: np.random.Generator, topic: NDArray[np.object_], own: NDArray[np.object_]
    ) -> str:
        mix = self.mix
        n = mix.length // 2
        words = self._words[_draw(rng, self._word_odds, n)]
        place = (rng.pareto(0.95, n) * mix.spread).clip(max=199).astype(np.int64)
        share = rng.random(n)
        words = np.where(share < mix.topical, topic[place], words)
        is_own = (share >= mix.topical) & (share < mix.topical + mix.own)
        words = np.where(is_own, own[place % len(own)], words)
        is_fresh = share > 1 - mix.fresh
        words[is_fresh] = self._made_up(rng, int(is_fresh.sum()))
        tails = self._particles[_draw(rng, self._particle_odds, n)]
        gap = rng.random(n)
        parts: list[str] = []
        left = mix.length
        for word, tail, x in zip(words, tails, gap, strict=True):
            part = word + mix.joint + tail if x < mix.particles else word
            if x > mix.stops:
                part += "," if mix.joint else "，"
            parts.append(part)
            left -= len(part) + len(mix.joint)
            if left <= 0:
                break
        return mix.joint.join(parts)

    def _made_up(self, rng: np.random.Generator, n: int) -> NDArray[np.object_]:
        ends = self._parts[_draw(rng, self._part_odds, n)]
        if self.mix.joint:
            starts = [word[:5] for word in self._words[_draw(rng, self._rare_odds, n)]]
        else:
            starts = self._parts[_draw(rng, self._part_odds, n)].tolist()
        return np.array([a + b for a, b in zip(starts, ends, strict=True)], dtype=object)


Scored = Sequence[tuple[str, float]]


def _han_words() -> tuple[Scored, Scored, Scored]:
    return (
        _pieces(f"[{PARTICLES}]"),
        [x for x in _pieces("[\u4e00-\u9fff]{2,4}") if rjieba.cut(x[0]) == [x[0]]],
        _pieces("[\u4e00-\u9fff]"),
    )


def _latin_words() -> tuple[Scored, Scored, Scored]:
    return _pieces("▁[A-Za-z]{1,3}")[:150], _pieces("▁[A-Za-z]{6,}"), _pieces("[a-z]{2,5}")


def _pieces(pattern: str) -> list[tuple[str, float]]:
    wanted = re.compile(pattern)
    found = [(piece.strip("▁"), score) for piece, score in _vocabulary() if wanted.fullmatch(piece)]
    return sorted(found, key=lambda item: -item[1])


@lru_cache(maxsize=1)
def _vocabulary() -> list[tuple[str, float]]:
    vocabulary = Weights(find_weights()).vocabulary()
    return list(zip(vocabulary.pieces, vocabulary.scores, strict=True))


def _cumulated(items: Scored, power: float) -> NDArray[np.float64]:
    return np.cumsum(np.exp(np.array([score for _, score in items]) * power))


def _draw(
    rng: np.random.Generator, odds: NDArray[np.float64], shape: int | tuple[int, ...]
) -> NDArray[np.int64]:
    places: NDArray[np.int64] = np.searchsorted(odds, rng.random(shape) * odds[-1])
    return places


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / lengths
