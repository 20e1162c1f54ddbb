"""Terms to integer keys, and BM25 weights. The store is part of a key: one index serves all."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

K1 = 1.2
B = 0.75
PRIME = 999_999_937


def term_key(store_id: int, term: str) -> int:
    """Return the key of ``term`` in a store, 1 to 999,999,937."""
    return zlib.crc32(f"{store_id}\0{term}".encode()) % PRIME + 1


def term_weights(store_id: int, counts: Mapping[str, int], avg_len: float) -> dict[int, float]:
    """Return key to BM25 term weight: ``tf (k1 + 1) / (tf + k1 (1 - b + b len / avglen))``.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009. The idf is
    multiplied in at query time. Terms that share a key count as one.
    """
    length = sum(counts.values())
    norm = K1 * (1 - B + B * length / avg_len)
    prefix = zlib.crc32(f"{store_id}\0".encode())
    merged: dict[int, int] = {}
    for term, count in counts.items():
        key = zlib.crc32(term.encode(), prefix) % PRIME + 1
        merged[key] = merged.get(key, 0) + count
    return {key: tf * (K1 + 1) / (tf + norm) for key, tf in merged.items()}
