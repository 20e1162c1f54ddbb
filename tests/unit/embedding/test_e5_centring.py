"""Taking the language out of vectors: the formula, the shipped means, what it is for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag.providers.e5 import make_means
from rag.providers.e5.centring import MEANS_PATH, ROLES, Role, centre
from rag.providers.e5.embedder import E5Embedder
from rag.providers.e5.make_means import compute_means, read_sentences
from rag.providers.local_models import unit_vector

MEANS: NDArray[np.float32] = np.load(MEANS_PATH)
ENGLISH = (
    "The canteen opens at half past eleven and closes at two.",
    "Invoices above five thousand need the signature of two managers.",
    "The server room is cooled to nineteen degrees all year round.",
    "A lost badge must be reported to the reception on the same day.",
    "Trains to the airport leave every twenty minutes from platform four.",
    "The library lends books for four weeks and films for one.",
)
QUESTIONS = (
    "食堂几点开门？",
    "五千元以上的发票由谁签字？",
    "机房的温度是多少？",
    "工牌丢了怎么办？",
    "去机场的火车多久一班？",
    "图书可以借多长时间？",
)
OTHER_CHINESE = (
    "游泳池每周一闭馆维护，其余时间照常开放。",
    "新款手机的电池可以使用两天。",
    "花园里的玫瑰应在三月修剪。",
    "这家餐厅以海鲜和手工面条闻名。",
    "孩子们在操场上踢足球。",
    "博物馆的门票可以在网上预订。",
    "邮局下午五点半停止收件。",
    "合同一式两份，双方各执一份。",
)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> E5Embedder:
    return E5Embedder(cache_dir=tmp_path_factory.mktemp("models"))


def test_the_shipped_means_are_those_of_the_shipped_sentences(embedder: E5Embedder) -> None:
    again = compute_means(embedder)
    assert MEANS.shape == again.shape == (2, 2, 384)
    assert MEANS.dtype == np.float32
    pairs = zip(MEANS.reshape(4, 384), again.reshape(4, 384), strict=True)
    assert (
        min(float(unit_vector(a) @ unit_vector(b)) for a, b in pairs) > 0.999
    )  # shipped: fp32; here: int8


def test_each_sentence_has_its_translation() -> None:
    sections = read_sentences()
    assert {name: len(found) for name, found in sections.items()} == {
        "english query": 36,
        "chinese query": 36,
        "english passage": 24,
        "chinese passage": 24,
    }
    assert all(len(set(found)) == len(found) for found in sections.values())


def test_sections_are_read_without_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_text("[english query]\n a \n\nb\n[chinese query]\n甲\n", encoding="utf-8")
    assert read_sentences(path) == {"english query": ["a", "b"], "chinese query": ["甲"]}


def test_the_module_names_all_roles_and_languages() -> None:
    named = {f"{language} {role}" for language in make_means.LANGUAGES for role in ROLES}
    assert named == set(read_sentences())


vectors = st.integers(0, 2**32 - 1).map(
    lambda seed: unit_vector(np.random.default_rng(seed).normal(size=384).astype(np.float32))
)


@given(vectors, st.sampled_from(ROLES))
def test_what_is_left_has_length_one_and_nothing_of_the_language(
    vector: NDArray[np.float32], role: Role
) -> None:
    left = centre(vector, role)
    english, chinese = MEANS[ROLES.index(role)]
    assert left.dtype == np.float32
    assert np.linalg.norm(left) == pytest.approx(1, abs=1e-5)
    assert abs(float(left @ unit_vector(chinese - english))) < 1e-5


@given(vectors, st.sampled_from(ROLES), st.floats(-1, 2))
def test_moving_along_the_line_of_languages_changes_nothing(
    vector: NDArray[np.float32], role: Role, step: float
) -> None:
    english, chinese = MEANS[ROLES.index(role)]
    moved = vector + np.float32(step) * (chinese - english)
    assert np.allclose(centre(moved, role), centre(vector, role), atol=1e-5)


def test_a_chinese_question_finds_its_english_answer_among_chinese_texts(
    embedder: E5Embedder,
) -> None:
    pool = [*ENGLISH, *OTHER_CHINESE]

    def rank_one(questions: NDArray[np.float32], passages: NDArray[np.float32]) -> int:
        return int(((questions @ passages.T).argmax(axis=1) == np.arange(len(questions))).sum())

    raw = rank_one(embedder.embed_raw(QUESTIONS, "query"), embedder.embed_raw(pool, "passage"))
    questions = np.stack([embedder.embed_query(question) for question in QUESTIONS])
    centred = rank_one(questions, embedder.embed_passages(pool))
    assert (raw, centred) == (raw, len(QUESTIONS))
    assert raw <= 3


def test_languages_lie_apart_on_the_line_and_mixed_texts_between(embedder: E5Embedder) -> None:
    english, chinese = MEANS[ROLES.index("passage")]
    line = (chinese - english) / float((chinese - english) @ (chinese - english))

    def places(texts: tuple[str, ...]) -> NDArray[np.float32]:
        return (embedder.embed_raw(texts, "passage") - english) @ line

    assert places(ENGLISH).max() < 0.35
    assert places(OTHER_CHINESE).min() > 0.75
    mixed = places(tuple("第三章 使用说明\n" + text for text in ENGLISH))
    assert 0.2 < mixed.mean() < 0.9
