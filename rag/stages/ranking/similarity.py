"""Similarity of a vector index's distance: cosine, inner product, L2 and unknown measures."""

from __future__ import annotations

from rag.core.errors import UnknownNameError

MEASURES = ("cosine", "ip", "l2", "other")


def distance_to_similarity(distance: float, measure: str) -> float:
    """Return the score of a distance that is 0 for equal vectors.

    ``cosine`` and ``ip`` are 1 minus the product, ``l2`` is squared: between vectors of length 1
    all three scores are the cosine. ``other`` distances become a share between 0 and 1.
    """
    if measure not in MEASURES:
        raise UnknownNameError("measure", measure, MEASURES)
    if measure == "l2":
        return 1.0 - distance / 2.0
    return 1.0 / (1.0 + max(distance, 0.0)) if measure == "other" else 1.0 - distance
