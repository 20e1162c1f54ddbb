"""Vectors as pgvector reads them. In: numbers. Out: text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSIONS = 1_000_000_000


def vector_literal(vector: NDArray[np.float32]) -> str:
    """Return pgvector's text form of a vector, each number as short as float32 allows."""
    numbers = vector.astype("float32", order="C", copy=False)
    return orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def sparse_literal(weights: Mapping[int, float]) -> str:
    """Return pgvector's text form of a sparsevec; indices count from 1, as keys do."""
    body = ",".join(f"{key}:{weight:.6g}" for key, weight in sorted(weights.items()))
    return f"{{{body}}}/{DIMENSIONS}"
