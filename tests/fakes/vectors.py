"""Fake embeddings: similar texts have near vectors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator


def hashed_vector(text: str, dim: int, *, length: float = 1.0) -> list[float]:
    """Return hashed character n-grams and words, scaled to ``length``; the same for ever."""
    vector = [0.0] * dim
    for feature in _features(text.lower()):
        digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        vector[number % dim] += 1.0 if number >> 63 else -1.0
    if not any(vector):
        vector[0] = 1.0
    norm = math.hypot(*vector)
    return [length * value / norm for value in vector]


def _features(text: str) -> Iterator[str]:
    yield from text.split()
    for size in (1, 2, 3):
        yield from (text[start : start + size] for start in range(len(text) - size + 1))
