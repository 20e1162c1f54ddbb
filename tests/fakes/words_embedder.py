"""An embedder of hashed words: texts that share words are near. For tests that need no model."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_TOKEN = re.compile(r"[a-z0-9]+|[^\x00-\x7f\s]")


class WordTokenizer:
    """Counts Latin words and single other characters."""

    id = "words"

    def count(self, text: str) -> int:
        return len(self.offsets(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _TOKEN.finditer(text.lower())]


class WordsEmbedder:
    """Adds up one pseudo-random direction per word."""

    version = "1"
    max_tokens = 512

    def __init__(self, dim: int) -> None:
        self.id = f"words:{dim}"
        self.dim = dim
        self.tokenizer = WordTokenizer()

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        total = np.full(self.dim, 1e-3, dtype=np.float32)
        for word in _TOKEN.findall(text.lower()):
            seed = zlib.crc32(word.encode())
            total += np.random.default_rng(seed).standard_normal(self.dim).astype(np.float32)
        return total / np.float32(np.linalg.norm(total))


def make(model: str) -> WordsEmbedder:
    """Return the embedder with as many dimensions as its model's name says."""
    return WordsEmbedder(int(model))
