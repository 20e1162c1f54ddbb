"""What every implementation of a port must hold. Public: a plugin's tests subclass these too.

The test module sets a fixture and inherits the tests:

    @pytest.fixture(scope="module")
    def embedder() -> Embedder:
        return MyEmbedder()

    class TestMyEmbedder(EmbedderContract):
        pass

The contracts of plugins are part of the product and only named here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError
from rag.core.ports import Embedder, Tokenizer
from rag.plugins.contract_enhancer import EnhancerContract as EnhancerContract
from rag.plugins.contract_source import Ask as Ask
from rag.plugins.contract_source import SourceContract as SourceContract
from rag.plugins.contract_tool import ToolContract as ToolContract

R = TypeVar("R")

ORDINARY = (
    "Employees may carry over five days of leave into the next year.",
    "员工每年可以把五天年假结转到下一年。",
    "在 PostgreSQL 中用 HNSW 索引做向量检索，ef_search 默认是 100。",
    "Le café coûte 3,50 € – à emporter.",
    "第三章 概述\n\n  1. 适用范围\n\t2. 定义",
)
BLANK = ("", " ", "\n\n\t")
ODD = (
    "。",
    "a",
    "😀👨‍👩‍👧 ok",
    "a\0b",
    "\ud800 lone \udfff",
    "㍿ ﬁne ｆｕｌｌ　ｗｉｄｔｈ é e\u0301",
    "𓀀𓀁𓀂",
    "\u200b\ufeff\u2028x",
    "<s>not a mark</s> <unk> [CLS] <|endoftext|>",
    "x" * 3000,
    "长" * 3000,
)
LONG = "The committee met again in spring. 委员会在春天再次开会。" * 150

_inherited = settings(
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.function_scoped_fixture],
    max_examples=60,
)


class TokenizerContract:
    """Counts and positions that a chunker can rely on. Set the fixture ``tokenizer``."""

    @pytest.mark.parametrize("text", [*ORDINARY, *BLANK, *ODD, LONG])
    def test_positions_are_in_order_within_the_text_and_as_many_as_counted(
        self, tokenizer: Tokenizer, text: str
    ) -> None:
        check_spans(tokenizer, text)

    @given(st.text(st.characters(codec=None), max_size=200))
    @_inherited
    def test_any_string_has_positions_within_it(self, tokenizer: Tokenizer, text: str) -> None:
        check_spans(tokenizer, text)

    def test_an_empty_text_has_no_tokens(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.count("") == 0
        assert tokenizer.offsets("") == []

    @pytest.mark.parametrize("text", ORDINARY)
    def test_every_letter_and_digit_lies_in_a_token(self, tokenizer: Tokenizer, text: str) -> None:
        covered = {at for start, end in tokenizer.offsets(text) for at in range(start, end)}
        assert [
            text[at] for at in range(len(text)) if text[at].isalnum() and at not in covered
        ] == []

    def test_more_text_never_means_fewer_tokens(self, tokenizer: Tokenizer) -> None:
        counts = [tokenizer.count(ORDINARY[0] + " " + "word " * n) for n in (1, 10, 100)]
        assert counts == sorted(counts)
        assert counts[2] - counts[1] >= 90

    def test_counts_of_lines_add_up_to_about_the_count_of_the_text(
        self, tokenizer: Tokenizer
    ) -> None:
        apart = sum(tokenizer.count(text) for text in ORDINARY)
        together = tokenizer.count("\n".join(ORDINARY))
        assert abs(apart - together) <= 3 * len(ORDINARY)

    def test_long_texts_are_counted_whole(self, tokenizer: Tokenizer) -> None:
        spans = tokenizer.offsets(LONG)
        assert spans[-1][1] >= len(LONG) - 1
        assert len(spans) > 150 * 8

    def test_threads_count_alike(self, tokenizer: Tokenizer) -> None:
        texts = [*ORDINARY, *ODD] * 3
        assert at_once(tokenizer.offsets, texts) == [tokenizer.offsets(text) for text in texts]

    def test_it_has_a_name(self, tokenizer: Tokenizer) -> None:
        assert isinstance(tokenizer.id, str)
        assert tokenizer.id


class EmbedderContract(TokenizerContract):
    """Unit vectors that depend on the text alone. Set the fixture ``embedder``.

    ``is_semantic`` False: a stand-in whose vectors mean nothing. ``reads_long_texts`` False: the
    model behind the port cuts, which the provider cannot help.
    """

    is_semantic = True
    reads_long_texts = True

    @pytest.fixture(scope="class")
    @classmethod
    def tokenizer(cls, embedder: Embedder) -> Tokenizer:
        return embedder.tokenizer

    def test_it_names_what_makes_its_vectors(self, embedder: Embedder) -> None:
        provider, colon, model = embedder.id.partition(":")
        assert (bool(provider), colon, bool(model)) == (True, ":", True)
        assert embedder.version
        assert embedder.dim > 0
        assert embedder.max_tokens > 0

    def test_passages_are_rows_of_unit_length(self, embedder: Embedder) -> None:
        check_vectors(embedder.embed_passages(ORDINARY), (len(ORDINARY), embedder.dim))

    def test_a_query_is_one_vector_of_unit_length(self, embedder: Embedder) -> None:
        check_vectors(embedder.embed_query("年假可以结转吗？"), (embedder.dim,))

    def test_no_texts_make_no_rows(self, embedder: Embedder) -> None:
        check_vectors(embedder.embed_passages([]), (0, embedder.dim))

    @pytest.mark.parametrize("text", ODD)
    def test_odd_texts_get_a_vector_too(self, embedder: Embedder, text: str) -> None:
        check_vectors(embedder.embed_passages([text]), (1, embedder.dim))
        check_vectors(embedder.embed_query(text), (embedder.dim,))

    @pytest.mark.parametrize("text", BLANK)
    def test_blank_texts_get_a_vector_or_a_clear_refusal(
        self, embedder: Embedder, text: str
    ) -> None:
        try:
            vector = embedder.embed_query(text)
        except InvalidInputError as refusal:
            assert str(refusal)
        else:
            check_vectors(vector, (embedder.dim,))

    def test_a_vector_does_not_depend_on_its_neighbours(self, embedder: Embedder) -> None:
        texts = [*ORDINARY, *ODD[:6], LONG]
        together = embedder.embed_passages(texts)
        apart = np.concatenate([embedder.embed_passages([text]) for text in texts])
        backwards = embedder.embed_passages(texts[::-1])[::-1]
        assert np.array_equal(together, apart)
        assert np.array_equal(together, backwards)

    def test_threads_get_the_same_vectors(self, embedder: Embedder) -> None:
        texts = list(ORDINARY) * 4
        expected = [embedder.embed_query(text) for text in ORDINARY] * 4
        assert np.array_equal(np.stack(at_once(embedder.embed_query, texts)), np.stack(expected))
        batches = at_once(embedder.embed_passages, [ORDINARY] * 4)
        assert all(np.array_equal(batch, batches[0]) for batch in batches)

    def test_different_texts_get_different_vectors(self, embedder: Embedder) -> None:
        vectors = embedder.embed_passages(ORDINARY)
        cosines = vectors @ vectors.T - np.eye(len(ORDINARY), dtype=np.float32)
        assert cosines.max() < 0.999

    def test_nothing_of_a_long_text_is_cut(self, embedder: Embedder) -> None:
        if not self.reads_long_texts:
            pytest.skip("the model behind the port cuts")
        text = LONG
        while embedder.tokenizer.count(text) <= 2 * embedder.max_tokens:
            text += LONG
        ends = [text + "The harbour was closed at night.", text + "蛋糕里要放三个鸡蛋和一点盐。"]
        first, second = embedder.embed_passages(ends)
        assert not np.array_equal(first, second)

    def test_a_question_is_nearest_to_its_answer(self, embedder: Embedder) -> None:
        if not self.is_semantic:
            pytest.skip("a stand-in")
        answers = [
            "To change your password, open the account page and choose “Reset password”.",
            "Melt the butter, stir in the flour and let the cake bake for forty minutes.",
            "The river freezes in January and ships wait in the harbour until March.",
        ]
        cosines = embedder.embed_passages(answers) @ embedder.embed_query(
            "How do I get a new password?"
        )
        assert int(cosines.argmax()) == 0


def check_spans(tokenizer: Tokenizer, text: str) -> None:
    """Assert that the tokens of ``text`` are counted and located without contradiction."""
    spans = tokenizer.offsets(text)
    assert tokenizer.count(text) == len(spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    assert [end for _, end in spans] == sorted(end for _, end in spans)


def check_vectors(vectors: Any, shape: tuple[int, ...]) -> None:
    """Assert float32 of this shape, each row finite and of length 1."""
    assert isinstance(vectors, np.ndarray)
    assert vectors.dtype == np.float32
    assert vectors.shape == shape
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-4)


def at_once(work: Callable[[Any], R], items: Sequence[Any], n_threads: int = 4) -> list[R]:
    """Return ``work`` of each item, called from threads that start together."""
    gate = threading.Barrier(n_threads)
    with ThreadPoolExecutor(n_threads, initializer=gate.wait) as pool:
        return list(pool.map(work, items))
