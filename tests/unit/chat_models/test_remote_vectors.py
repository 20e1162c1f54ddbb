"""Numbers off the wire, and many texts in few requests."""

from __future__ import annotations

import base64
import math
import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag.core.errors import InvalidInputError, ProviderError
from rag.providers.bpe import BpeTokenizer
from rag.providers.remote.batches import (
    BatchLimits,
    EmbeddingBatcher,
    sendable_text,
    unit_vectors,
)
from rag.providers.remote.service import RemoteService

SERVICE = RemoteService("llm.example", "bge-m3", "KEY", "URL")


def packed(*values: float) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def test_rows_become_unit_vectors_in_order() -> None:
    found = unit_vectors(SERVICE, [[3.0, 4.0], [0, -2]], 2)
    assert found.dtype == np.float32
    assert found.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, -1.0]]


def test_base64_and_numbers_are_the_same_vector() -> None:
    found = unit_vectors(SERVICE, [packed(3.0, 4.0), [3.0, 4.0]], 2)
    assert found[0].tolist() == found[1].tolist()


def test_huge_and_tiny_numbers_are_normalised_too() -> None:
    found = unit_vectors(SERVICE, [[1e200, 1e200], [1e-150, 0.0]], 2)
    assert np.linalg.norm(found, axis=1).tolist() == [pytest.approx(1.0), pytest.approx(1.0)]


@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6), min_size=3, max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_length_is_one_and_direction_is_kept(rows: list[list[float]]) -> None:
    found = unit_vectors(SERVICE, rows, 3)
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert (np.sign(found) == np.sign(np.asarray(rows))).all()


def test_another_size_names_both_sizes_and_the_setting() -> None:
    with pytest.raises(ProviderError) as caught:
        unit_vectors(SERVICE, [[1.0, 2.0], [1.0, 2.0, 3.0]], 2)
    assert str(caught.value) == (
        "The model bge-m3 makes vectors of 3 numbers, but 2 are expected. "
        "Set RAG_EMBEDDING_DIM to 3, or choose the model that the store uses."
    )


def test_without_a_size_the_rows_must_agree() -> None:
    assert unit_vectors(SERVICE, [[1.0, 2.0, 2.0]], 0).shape == (1, 3)
    with pytest.raises(ProviderError, match="vectors of 3 numbers, but 2"):
        unit_vectors(SERVICE, [[1.0, 2.0], [1.0, 2.0, 3.0]], 0)


@pytest.mark.parametrize(
    "row", [[float("nan"), 1.0], [float("inf"), 1.0], [None, 1.0], [0.0, 0.0], packed(0.0, 0.0)]
)
def test_numbers_that_cannot_be_compared_are_refused(row: object) -> None:
    with pytest.raises(ProviderError, match="zero or not finite"):
        unit_vectors(SERVICE, [row], 2)


@pytest.mark.parametrize(
    "row", ["not base64!", "AAA=", [], "", {"a": 1}, [[1.0], [2.0]], ["x", "y"], None, 5, [1.0, []]]
)
def test_what_is_no_vector_is_refused(row: object) -> None:
    with pytest.raises(ProviderError, check=lambda e: "no list of numbers" in e.detail):
        unit_vectors(SERVICE, [row], 2)


def lengths(part: list[str]) -> NDArray[np.float32]:
    return np.asarray([[len(text)] for text in part], dtype=np.float32)


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        (BatchLimits(max_texts=3), [3, 3, 1]),
        (BatchLimits(max_texts=100, max_tokens=2), [2, 2, 2, 1]),
        (BatchLimits(max_texts=100, max_tokens=1), [1] * 7),
        (BatchLimits(max_texts=7), [7]),
    ],
)
def test_parts_keep_to_both_limits(limits: BatchLimits, sizes: list[int]) -> None:
    parts: list[list[str]] = []
    lock = threading.Lock()

    def request(part: list[str]) -> NDArray[np.float32]:
        with lock:
            parts.append(part)
        return lengths(part)

    # One token each, one letter more each.
    texts = ["a", "to", "the", "with", "there", "should", "between"]
    found = EmbeddingBatcher(limits, BpeTokenizer(), 500).embed(texts, request)
    assert found.ravel().tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(map(len, parts)) == sorted(sizes)


@given(
    st.lists(st.text(st.sampled_from("ab 保"), min_size=1, max_size=30), min_size=1, max_size=40),
    st.integers(1, 9),
    st.integers(1, 20),
)
def test_every_text_is_sent_once_and_in_place(
    texts: list[str], max_texts: int, max_tokens: int
) -> None:
    limits = BatchLimits(max_texts=max_texts, max_tokens=max_tokens, concurrency=3)
    texts = [f"{text}." for text in texts]
    found = EmbeddingBatcher(limits, BpeTokenizer(), 500).embed(texts, lengths)
    assert found.ravel().tolist() == [len(text) for text in texts]


def test_a_long_text_is_read_in_windows_and_averaged() -> None:
    sent: list[str] = []

    def request(part: list[str]) -> NDArray[np.float32]:
        sent.extend(part)
        rows = [[1.0, 0.0] if "one" in text else [0.0, 1.0] for text in part]
        return np.asarray(rows, dtype=np.float32)

    text = " one" * 6 + " two" * 6
    found = EmbeddingBatcher(BatchLimits(), BpeTokenizer(), 6).embed(
        ["one", text, "two"], request, prefix="p:"
    )
    assert sent == ["p:one", "p:" + " one" * 6, "p:" + " two" * 6, "p:two"]
    half = pytest.approx(math.sqrt(0.5))
    assert found.tolist() == [[1.0, 0.0], [half, half], [0.0, 1.0]]


@given(st.text(st.sampled_from("ab 保固👩\n"), min_size=1, max_size=80), st.integers(1, 12))
def test_windows_hold_all_of_a_text_and_keep_to_the_limit(text: str, text_tokens: int) -> None:
    tokenizer = BpeTokenizer()
    sent: list[str] = []

    def request(part: list[str]) -> NDArray[np.float32]:
        sent.extend(part)
        return lengths(part) * 0 + 1

    if not text.strip():
        return
    found = EmbeddingBatcher(BatchLimits(concurrency=1), tokenizer, text_tokens).embed(
        [text], request
    )
    assert found.shape == (1, 1)
    assert "".join("".join(sent).split()) == "".join(text.split())
    # One more than asked for where a cut parts what was one token.
    assert all(tokenizer.count(window) <= 2 * text_tokens + 8 for window in sent)


def test_a_text_over_the_limit_goes_alone() -> None:
    seen: list[int] = []

    def request(part: list[str]) -> NDArray[np.float32]:
        seen.append(len(part))
        return lengths(part)

    limits = BatchLimits(max_tokens=5, concurrency=1)
    EmbeddingBatcher(limits, BpeTokenizer(), 500).embed(["a", "long " * 50, "b"], request)
    assert seen == [1, 1, 1]


def test_the_first_error_stops_what_has_not_begun() -> None:
    started: list[str] = []

    def request(part: list[str]) -> NDArray[np.float32]:
        started.append(part[0])
        time.sleep(0.02)
        if part[0] == "0":
            raise ProviderError("down")
        return lengths(part)

    batches = EmbeddingBatcher(BatchLimits(max_texts=1, concurrency=2), BpeTokenizer(), 500)
    with pytest.raises(ProviderError, match="down"):
        batches.embed([str(number) for number in range(50)], request)
    time.sleep(0.1)
    assert len(started) < 10


def test_callers_on_several_threads_share_the_bound() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def request(part: list[str]) -> NDArray[np.float32]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return lengths(part)

    batches = EmbeddingBatcher(BatchLimits(max_texts=1, concurrency=3), BpeTokenizer(), 500)
    callers = [
        threading.Thread(target=batches.embed, args=(["a", "b", "c", "d"], request))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert most == 3


def test_a_forked_child_has_threads_of_its_own() -> None:
    batches = EmbeddingBatcher(BatchLimits(max_texts=1, concurrency=2), BpeTokenizer(), 500)
    batches.embed(["a", "b", "c"], lengths)
    child = os.fork()
    if child == 0:
        found = batches.embed(["a", "bb", "ccc"], lengths)
        os._exit(0 if found.ravel().tolist() == [1, 2, 3] else 1)
    assert waited(child) == 0


def waited(child: int, timeout_s: float = 10.0) -> int:
    """Return a child's exit code; end one that hangs."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@pytest.mark.parametrize("text", ["", "  \n", "\x00", "\ud800", " \x00\udfff "])
def test_nothing_has_no_vector(text: str) -> None:
    with pytest.raises(InvalidInputError, match="without a single character"):
        sendable_text(text)


def test_what_json_or_c_cannot_bear_becomes_a_blank() -> None:
    assert sendable_text("a\x00b\ud83dc") == "a b c"
    assert sendable_text("保固\u3000👩 ") == "保固\u3000👩 "
