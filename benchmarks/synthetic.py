"""Made-up chunks that measure like real ones. In: a seed. Out: texts, vectors, queries.

Words are pieces of the e5 tokenizer's vocabulary, drawn by its own scores: a natural Zipf curve.
Documents have topics and words of their own. Mixing weights were set so that terms a chunk and
distinct terms a collection grow as in XQuAD (Chinese) and SciFact (English).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag.providers.e5.weights import Weights, find_weights

DIM = 384
PER_DOCUMENT = 30


@dataclass(frozen=True, slots=True)
class Script:
    """How text of one script is put together; lengths are in characters."""

    pattern: str
    length: int
    joint: str
    stops: str
    topical: float
    own: float
    phrases: int


HAN = Script(r"[\u4e00-\u9fff]+", 270, "", "，。", 0.30, 0.36, 60_000)
LATIN = Script(r"▁[A-Za-z]{1,}", 670, " ", ",.", 0.35, 0.12, 0)


@dataclass(frozen=True, slots=True)
class Passage:
    """A made-up chunk: its text and unit vector, and the topic that both came from."""

    document: int
    text: str
    vector: NDArray[np.float32]


class SyntheticCorpus:
    """Reproducible chunks, ``per_document`` in a row of one document; every other one is Han."""

    def __init__(self, seed: int = 1, *, per_document: int = PER_DOCUMENT, topics: int = 400):
        self._rng = np.random.default_rng(seed)
        self._per_document = per_document
        vocabulary = Weights(find_weights()).vocabulary()
        scored = list(zip(vocabulary.pieces, vocabulary.scores, strict=True))
        self._lexicons = [_Lexicon(HAN, scored, self._rng, topics)]
        self._lexicons.append(_Lexicon(LATIN, scored, self._rng, topics))
        self._space = _Space(self._rng, topics)
        self._topics = topics

    def passages(self, n: int) -> Iterator[Passage]:
        """Yield ``n`` passages; called again it goes on with new documents."""
        for document in range(-(-n // self._per_document)):
            topic = int(self._rng.integers(self._topics))
            size = min(self._per_document, n - document * self._per_document)
            lexicon = self._lexicons[document % 2]
            texts = lexicon.texts(self._rng, topic, size)
            vectors = self._space.document(self._rng, topic, size)
            for text, vector in zip(texts, vectors, strict=True):
                yield Passage(document, text, vector)


class _Lexicon:
    def __init__(self, script: Script, scored: list[tuple[str, float]], rng: np.random.Generator, topics: int) -> None:
        self.script = script
        known = [(p, s) for p, s in scored if re.fullmatch(script.pattern, p)]
        words = [p.strip("▁") for p, _ in known]
        weights = np.exp(np.array([s for _, s in known]))
        order = np.argsort(-weights)
        words = [words[i] for i in order]
        weights = weights[order] / weights.sum()
        if script.phrases:
            size = script.phrases
            parts = rng.choice(len(words), size=(size, 2), p=_flat(weights, 0.8))
            words += [words[a] + words[b] for a, b in parts]
            tail = 1 / np.arange(10, size + 10) ** 1.0
            weights = np.concatenate([0.6 * weights, 0.4 * tail / tail.sum()])
        self.words = np.array(words, dtype=object)
        self.common = np.cumsum(weights)
        self.flat = np.cumsum(_flat(weights, 0.75))
        self.topics = self._draw(rng, self.flat, (topics, 200))

    def _draw(self, rng: np.random.Generator, cumulated: NDArray[np.float64], shape) -> NDArray[np.int64]:
        return np.searchsorted(cumulated, rng.random(shape) * cumulated[-1])

    def texts(self, rng: np.random.Generator, topic: int, n: int) -> list[str]:
        own = self._draw(rng, self.flat, 40)
        return [self._text(rng, topic, own) for _ in range(n)]

    def _text(self, rng: np.random.Generator, topic: int, own: NDArray[np.int64]) -> str:
        script = self.script
        size = script.length
        picks = self._draw(rng, self.common, size)
        source = rng.random(size)
        is_topical = source < script.topical
        is_own = source > 1 - script.own
        zipf = np.minimum(rng.pareto(0.9, size).astype(np.int64), 199)
        picks = np.where(is_topical, self.topics[topic][zipf], picks)
        fresh = self._draw(rng, self.flat, size)
        picks = np.where(is_own, np.where(rng.random(size) < 0.5, own[zipf % 40], fresh), picks)
        parts: list[str] = []
        left = script.length
        for word in self.words[picks]:
            parts.append(word)
            left -= len(word) + len(script.joint)
            if len(parts) % 9 == 0:
                parts[-1] += script.stops[len(parts) % 27 == 0]
                left -= 1
            if left <= 0:
                break
        return script.joint.join(parts)


class _Space:
    def __init__(self, rng: np.random.Generator, topics: int) -> None:
        # Eigenvalues of sentence embeddings fall off like a power law.
        self.scale = (np.arange(1, DIM + 1) ** -0.35).astype(np.float32)
        self.rotation = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0].astype(np.float32)
        self.centres = rng.standard_normal((topics, DIM)).astype(np.float32)

    def document(self, rng, topic: int, n: int) -> NDArray[np.float32]:
        own = rng.standard_normal(DIM).astype(np.float32)
        latent = 0.6 * self.centres[topic] + 0.5 * own + 0.8 * rng.standard_normal((n, DIM)).astype(np.float32)
        vectors = (latent * self.scale) @ self.rotation
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _flat(weights, power):
    flat = weights**power
    return flat / flat.sum()
