"""Serialisation for Postgres: pgvector text literals and fields of COPY's binary format."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

DIMENSIONS = 1_000_000_000
_INT = struct.Struct(">i")
_INT_FIELD = struct.Struct(">ii")
_ARRAY = struct.Struct(">iiiii")
_SPARSE = struct.Struct(">iii")
_INT4_OID = 23
_NULL = _INT.pack(-1)


def vector_literal(vector: NDArray[np.float32]) -> str:
    """Return pgvector's text form of a vector, each number as short as float32 allows."""
    numbers = vector.astype("float32", order="C", copy=False)
    return orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def sparse_literal(weights: Mapping[int, float]) -> str:
    """Return pgvector's text form of a sparsevec; indices count from 1, as keys do."""
    body = ",".join(f"{key}:{weight:.6g}" for key, weight in sorted(weights.items()))
    return f"{{{body}}}/{DIMENSIONS}"


def page_field(number: int | None) -> bytes:
    """Return a page number, or NULL."""
    return _NULL if number is None else _INT_FIELD.pack(4, number)


def text_field(text: str) -> bytes:
    """Return a text."""
    raw = text.encode()
    return _INT.pack(len(raw)) + raw


def json_field(values: Sequence[str]) -> bytes:
    """Return texts as jsonb."""
    raw = b"\1" + json.dumps(list(values), ensure_ascii=False).encode()
    return _INT.pack(len(raw)) + raw


def array_field(numbers: Sequence[int] | NDArray[np.int64] | NDArray[np.int32] | None) -> bytes:
    """Return an int[] of four-byte numbers, or NULL."""
    if numbers is None:
        return _NULL
    n = len(numbers)
    body = np.empty((n, 2), dtype=">i4")
    body[:, 0], body[:, 1] = 4, numbers
    return _INT.pack(20 + 8 * n) + _ARRAY.pack(1, 0, _INT4_OID, n, 1) + body.tobytes()


def sparse_field(keys: NDArray[np.int32], values: NDArray[np.float32]) -> bytes:
    """Return a sparsevec from ascending keys and their weights."""
    head = _INT.pack(12 + 8 * len(keys)) + _SPARSE.pack(DIMENSIONS, len(keys), 0)
    # The wire counts from 0 where keys count from 1.
    return head + (keys - 1).astype(">i4").tobytes() + values.astype(">f4").tobytes()
