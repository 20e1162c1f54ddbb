"""Cleaning and windows: positions stay, nothing is cut, weights are lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag.providers.local_models import average_windows, sendable_characters, unit_vector


@given(st.text(st.characters(codec=None)))
def test_cleaning_keeps_positions_and_can_be_encoded(text: str) -> None:
    cleaned = sendable_characters(text)
    cleaned.encode()
    assert len(cleaned) == len(text)
    assert "\0" not in cleaned
    assert sendable_characters(cleaned) == cleaned


def test_only_what_models_cannot_read_is_replaced() -> None:
    assert sendable_characters("a\0b \ud83d 😀 你\n") == "a b \ufffd 😀 你\n"


def test_the_length_becomes_one_and_zeros_stay() -> None:
    assert unit_vector(np.array([3, 4], np.float32)).tolist() == pytest.approx([0.6, 0.8])
    assert unit_vector(np.zeros(4, np.float32)).tolist() == [0, 0, 0, 0]
    assert unit_vector(np.array([3, 4], np.float64)).dtype == np.float32


def letters(text: str) -> NDArray[np.float32]:
    """Stand for a model: the shares of a and b in the text, at length 1."""
    return unit_vector(np.array([text.count("a"), text.count("b")], np.float32))


@given(st.text("ab", min_size=1, max_size=60), st.integers(1, 12))
def test_windows_cover_the_text_once_and_weigh_by_length(text: str, size: int) -> None:
    seen: list[str] = []

    def embed(window: str) -> NDArray[np.float32]:
        seen.append(window)
        return letters(window)

    vector = average_windows(embed, text, [(at, at + 1) for at in range(len(text))], size)
    assert "".join(seen) == text
    assert max(map(len, seen)) <= size
    assert np.allclose(
        vector, unit_vector(np.sum([len(w) * letters(w) for w in seen], axis=0)), atol=1e-6
    )


def test_a_short_text_is_given_whole_with_what_lies_between_tokens() -> None:
    seen: list[str] = []

    def embed(window: str) -> NDArray[np.float32]:
        seen.append(window)
        return np.array([2.0, 0.0], np.float32)

    assert average_windows(embed, "  a  ", [(2, 3)], 1).tolist() == [1, 0]
    assert average_windows(embed, "", [], 5).tolist() == [1, 0]
    assert seen == ["  a  ", ""]
