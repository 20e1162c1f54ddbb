"""What changed between two texts: told in words, whole, in any script."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.chunking.diff_texts import MAX_WORDS, DiffRun, diff_texts


def told(old: str, new: str) -> list[tuple[str, str]]:
    return [(run.kind, run.text) for run in diff_texts(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ("", "", []),
        ("same", "same", [("same", "same")]),
        ("", "new", [("new", "new")]),
        ("gone", "", [("gone", "gone")]),
        (
            "the pump runs",
            "the pump stopped",
            [("same", "the pump "), ("gone", "runs"), ("new", "stopped")],
        ),
        (
            "员工每年享有二十天年假",
            "员工每年享有十五天年假",
            [
                ("same", "员工每年享有"),
                ("gone", "二"),
                ("same", "十"),
                ("new", "五"),
                ("same", "天年假"),
            ],
        ),
        (
            "保修期两年。",
            "保修期三年。",
            [("same", "保修期"), ("gone", "两"), ("new", "三"), ("same", "年。")],
        ),
        (
            "HX-400 泵",
            "HX-401 泵",
            [("same", "HX-"), ("gone", "400"), ("new", "401"), ("same", " 泵")],
        ),
        ("a b c d", "x y c d", [("gone", "a b"), ("new", "x y"), ("same", " c d")]),
        ("red a big", "blue a tiny", [("gone", "red a big"), ("new", "blue a tiny")]),
        (
            "one\ntwo",
            "one\n\ntwo",
            [("same", "one"), ("gone", "\n"), ("new", "\n\n"), ("same", "two")],
        ),
        (
            "Über den Fluß",
            "Über die Fluß",
            [("same", "Über "), ("gone", "den"), ("new", "die"), ("same", " Fluß")],
        ),
        ("ภาษาไทย", "ภาษาลาว", [("same", "ภาษา"), ("gone", "ไทย"), ("new", "ลาว")]),
    ],
)
def test_words_are_told_apart(old: str, new: str, runs: list[tuple[str, str]]) -> None:
    assert told(old, new) == runs


texts = st.text(st.sampled_from("ab 泵年\n。-é\U00020000"), max_size=60) | st.text(max_size=40)


@given(texts, texts)
def test_both_texts_can_be_made_again(old: str, new: str) -> None:
    runs = diff_texts(old, new)
    assert "".join(run.text for run in runs if run.kind != "new") == old
    assert "".join(run.text for run in runs if run.kind != "gone") == new
    assert all(run.text for run in runs)


@given(texts, texts)
def test_no_two_runs_of_a_kind_follow_each_other_and_gone_comes_first(old: str, new: str) -> None:
    kinds = [run.kind for run in diff_texts(old, new)]
    pairs = list(pairwise(kinds))
    assert all(left != right for left, right in pairs)
    assert ("new", "gone") not in pairs


@given(texts)
def test_equal_texts_have_no_change(text: str) -> None:
    assert diff_texts(text, text) == ((DiffRun("same", text),) if text else ())


def test_markup_is_only_text() -> None:
    runs = told("<b>old</b>", "<b>new</b>")
    assert runs == [("same", "<b>"), ("gone", "old"), ("new", "new"), ("same", "</b>")]


def test_texts_of_a_book_take_no_minute() -> None:
    old = "\n".join(f"line {n} of the book" for n in range(MAX_WORDS))
    new = old.replace("line 77 ", "line 78 ", 1)
    started = time.perf_counter()
    runs = diff_texts(old, new)
    assert time.perf_counter() - started < 5
    assert "".join(run.text for run in runs if run.kind != "gone") == new
    assert [run.text for run in runs if run.kind == "gone"] == ["line 77 of the book\n"]
