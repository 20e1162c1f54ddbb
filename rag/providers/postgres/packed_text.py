"""A text as its row of words says it. In: text. Out: sorted keys with BM25 weights, a length.

Runs in processes of its own, so it knows neither Django nor a connection.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag.providers.postgres.keys import K1, PRIME, B
from rag.stages.terms import index_terms, is_han

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PackedText:
    """Ascending keys with their weights; ``length`` is the number of terms."""

    keys: NDArray[np.int32]
    weights: NDArray[np.float32]
    length: int
    is_han: bool


def pack_text(store_id: int, indexed: str, avg_len: float) -> PackedText:
    """Return what ``keys.term_weights`` makes of a text's terms, as arrays: in a third of the time.

    ``avg_len`` is the mean length to weigh by.
    """
    counts = index_terms(indexed)
    prefix = zlib.crc32(f"{store_id}\0".encode())
    hashes = [zlib.crc32(term.encode(), prefix) for term in counts]
    keys = (np.array(hashes, np.int64) % PRIME + 1).astype(np.int32)
    order = keys.argsort()
    keys = keys[order]
    tf = np.fromiter(counts.values(), np.float64, len(counts))[order]
    if (keys[1:] == keys[:-1]).any():
        keys, places = np.unique(keys, return_inverse=True)
        tf = np.bincount(places, tf).astype(np.float64)
    length = counts.total()
    weights = tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / avg_len))
    return PackedText(keys, weights.astype(np.float32), length, is_han(indexed))
