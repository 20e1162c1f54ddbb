"""Tokens of o200k: known counts, and places that fit the text to the last code point."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.ports import Tokenizer
from rag.providers.bpe import BpeTokenizer
from tests.contracts import TokenizerContract

TOKENIZER = BpeTokenizer()


class TestContract(TokenizerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def tokenizer(cls) -> Tokenizer:
        return TOKENIZER


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in TOKENIZER.offsets(text)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("Hello world", 2),
        ("保固期為兩年。", 7),
        ("    ", 1),
        ("\x00", 1),
        ("<|endoftext|>", 7),
        ("👩‍👩‍👧", 8),
    ],
)
def test_it_counts_as_the_published_vocabulary_does(text: str, count: int) -> None:
    assert TOKENIZER.count(text) == count
    assert len(TOKENIZER.offsets(text)) == count


def test_plain_words_are_cut_where_tokens_end() -> None:
    assert pieces("Hello world, naïve") == ["Hello", " world", ",", " naï", "ve"]


def test_chinese_is_cut_between_characters() -> None:
    assert pieces("保固期為兩年。") == ["保", "固", "期", "為", "兩", "年", "。"]


def test_tokens_that_share_a_character_each_cover_all_of_it() -> None:
    assert TOKENIZER.offsets("家𠮷野") == [(0, 1), *[(1, 2)] * 4, (2, 3)]


def test_a_lone_surrogate_keeps_all_later_positions() -> None:
    text = "a\ud800保固"
    assert TOKENIZER.offsets(text)[-1] == (3, 4)
    assert TOKENIZER.count(text) == len(TOKENIZER.offsets(text))


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_places_cover_any_text_in_order_without_a_gap(text: str) -> None:
    offsets = TOKENIZER.offsets(text)
    assert len(offsets) == TOKENIZER.count(text)
    covered = 0
    for start, end in offsets:
        # A gap would be a character that no token holds.
        assert start <= covered < end or (start < end == covered)
        covered = max(covered, end)
    assert covered == len(text)
    assert all(a <= b for a, b in pairwise(start for start, _ in offsets))


@given(st.lists(st.text(st.sampled_from("ab保固"), min_size=1, max_size=20), max_size=9))
def test_counts_of_lines_add_up(lines: list[str]) -> None:
    # Line breaks part what the tokenizer sees at once, so that sentences can be counted alone.
    whole = "".join(f"{line}\n" for line in lines)
    assert TOKENIZER.count(whole) == sum(TOKENIZER.count(f"{line}\n") for line in lines)


def test_threads_share_one_vocabulary() -> None:
    text = "保固期為兩年。Two years. " * 50
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(TOKENIZER.offsets, [text] * 32))
    assert all(offsets == TOKENIZER.offsets(text) for offsets in found)


def test_the_first_count_of_a_process_may_come_from_many_threads() -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from rag.providers.bpe import BpeTokenizer\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    print(set(pool.map(BpeTokenizer().count, ['保固期'] * 32)))\n"
        "import sys; print('bpe_openai' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    # The package is not imported: it would unpack three vocabularies into 100 MB of dicts.
    assert done.stdout.split() == ["{3}", "False"], done.stderr
