"""A packed text is what the plain weights say of its terms, in ascending order of keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.providers.postgres.lexical import bm25 as keys
from rag.providers.postgres.lexical import bm25 as packed_text
from rag.providers.postgres.lexical.bm25 import PackedText, pack_text
from rag.stages.text.terms import index_terms, is_han

WORDS = st.sampled_from(
    ["pump", "valve", "HX-4471-B", "水泵", "一氧化二氮", "的", "カタカナ", "42", "，"]
)
TEXTS = st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=60)


def plain(store_id: int, text: str, avg_len: float) -> dict[int, float]:
    return dict(sorted(keys.bm25_weights(store_id, index_terms(text), avg_len).items()))


def assert_as_plain(packed: PackedText, wanted: dict[int, float]) -> None:
    assert packed.keys.tolist() == list(wanted)
    assert packed.weights.tolist() == np.array(list(wanted.values()), np.float32).tolist()
    assert (packed.keys.dtype, packed.weights.dtype) == (np.int32, np.float32)


@given(text=TEXTS, store_id=st.integers(1, 10**6), avg_len=st.floats(1, 1000))
def test_it_says_what_the_plain_weights_say(text: str, store_id: int, avg_len: float) -> None:
    packed = pack_text(store_id, text, avg_len)
    assert_as_plain(packed, plain(store_id, text, avg_len))
    assert packed.length == index_terms(text).total()
    assert packed.is_han == is_han(text)


@given(text=TEXTS)
def test_terms_that_share_a_key_count_as_one(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "PRIME", 5)
        patch.setattr(packed_text, "PRIME", 5)
        packed = pack_text(1, text, 20.0)
        assert_as_plain(packed, plain(1, text, 20.0))
        assert len(packed.keys) <= 5


def test_a_text_without_a_word_has_no_keys() -> None:
    packed = pack_text(1, " ，。 ", 20.0)
    assert (len(packed.keys), len(packed.weights), packed.length) == (0, 0, 0)
