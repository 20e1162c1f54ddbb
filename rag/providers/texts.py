"""Text preparation for models: cleaning and windows of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Span = tuple[int, int]

# One for one, so that positions stay: C code reads NUL as an end, and half of a surrogate pair
# cannot be encoded.
_CLEAN = {0: " ", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}


def sendable_characters(text: str) -> str:
    """Return ``text`` without NUL and lone surrogates, each character at its place."""
    return text.translate(_CLEAN)


def average_windows(
    embed: Callable[[str], Vector], text: str, spans: Sequence[Span], size: int
) -> Vector:
    """Return the mean of the vectors of windows of ``size`` tokens, weighed by length; length 1.

    ``spans`` are the tokens' places in ``text``; a text of fewer tokens is one window, so nothing
    is ever cut.
    """
    if len(spans) <= size:
        return unit_vector(embed(text))
    parts = [spans[at : at + size] for at in range(0, len(spans), size)]
    vectors = [len(part) * embed(text[part[0][0] : part[-1][1]]) for part in parts]
    return unit_vector(np.sum(vectors, axis=0))


def unit_vector(vector: Vector) -> Vector:
    """Return ``vector`` at length 1 as float32; a vector of zeros stays as it is."""
    length = float(np.sqrt(vector @ vector))
    return (vector / max(length, 1e-12)).astype(np.float32)
