"""Vectors as text: the numbers that were given come back, and nothing else can be written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag.providers.postgres.db.literals import vector_literal


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_every_number_comes_back_as_it_was(numbers: list[float]) -> None:
    vector = np.array(numbers, dtype=np.float32)
    assert np.array_equal(np.array(json.loads(vector_literal(vector)), dtype=np.float32), vector)


@pytest.mark.parametrize(
    "vector",
    [
        np.arange(6, dtype=np.float32)[::2],
        np.array([0, 2, 4], dtype=np.float64),
        np.array([0, 2, 4], dtype=np.float16),
        np.array([0, 2, 4], dtype=">f4"),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2))[:, 0],
    ],
)
def test_any_layout_of_numbers_is_written(vector: NDArray[np.float32]) -> None:
    assert vector_literal(vector) == "[0.0,2.0,4.0]"
