"""Sentence ends, clause ends and safe places to cut."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.text.sentences import character_boundary, clause_ends, sentence_ends, sentence_spans

TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            [
                "水泵",
                "。",
                "pump",
                ". ",
                "Dr",
                "!",
                "\n",
                "…",
                "”",
                "3",
                " ",
                "\f",
                "\u0301",
                "\u200d",
                "\r\n",
                "-",
            ]
        )
    ).map("".join),
)


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("保修期两年。人为损坏除外！", ["保修期两年。", "人为损坏除外！"]),
        ("他说：“好的。”然后走了。", ["他说：“好的。”", "然后走了。"]),
        ("真的吗？！……是的", ["真的吗？！……", "是的"]),
        ("第一行。\n\n第二行", ["第一行。", "第二行"]),
        ("中文句号.下一句", ["中文句号.", "下一句"]),
        ("什么?不知道!好", ["什么?", "不知道!", "好"]),
        ("It lasts 2.5 years. It is v1.2.3! OK?", ["It lasts 2.5 years.", "It is v1.2.3!", "OK?"]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("See Fig. 3 by Dr. Li, e.g. No. 5. So.", ["See Fig. 3 by Dr. Li, e.g. No. 5.", "So."]),
        ("J. Smith of the U.S. Army agreed.", ["J. Smith of the U.S. Army agreed."]),
        ("It took approx. six days. then it went.", ["It took approx. six days.", "then it went."]),
        ("1. Open the valve.\n2. Close it.", ["1. Open the valve.", "2. Close it."]),
        ("Wait... He ran. ", ["Wait...", "He ran."]),
        ("甲；乙；丙。", ["甲；乙；丙。"]),
        ("| a | b |\n| 1 | 2 |", ["| a | b |", "| 1 | 2 |"]),
        (" \n\t", []),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_wrapped_line_goes_on(newline: str) -> None:
    text = newline.join(
        [
            "The pump in the cellar is switched off and then",
            "it is drained by hand. The valve must be",
            "closed before that.",
            "",
            "Another paragraph",
        ]
    )
    assert len(split(text)) == 3
    assert split(text)[0].endswith("by hand.")
    text = newline.join(
        [
            "国家规定的年休假天数应当按照员工累计工作年限计算，满十年不满二十年的员",
            "工可以享受十天。",
            "完。",
        ]
    )
    assert [s[-3:] for s in split(text)] == ["十天。", "完。"]


@pytest.mark.parametrize(
    "text",
    [
        "安装说明\n打开阀门",
        "Short line\nand another one",
        "# " + "Heading " * 8 + "\ntext of the paragraph " * 2,
        "word " * 12 + "\n- " + "item " * 10,
        "cell\tcell " * 8 + "\ncell\tcell " * 2,
        "word " * 12 + "\n\nword " * 3,
    ],
)
def test_other_line_breaks_end_a_sentence(text: str) -> None:
    assert split(text)[0] == text.split("\n", 1)[0].strip()


def test_a_sentence_may_run_over_a_page_break() -> None:
    assert split("水泵在夜间停止运转而阀门\f保持开启。下一句。") == [
        "水泵在夜间停止运转而阀门\f保持开启。",
        "下一句。",
    ]
    assert split("停止运转。\f保持开启。") == ["停止运转。", "保持开启。"]


@given(TEXTS)
def test_sentences_touch_and_cover_everything(text: str) -> None:
    ends = list(sentence_ends(text))
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([len(text)] if text else [])
    assert "".join("".join(split(text)).split()) == "".join(text.split())
    for end in ends[:-1]:
        assert unicodedata.category(text[end])[0] != "M"
        assert text[end - 1] != "\u200d"


@given(TEXTS, st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_text_is_split_by_itself(text: str, start: int, size: int) -> None:
    start = min(start, len(text))
    end = min(len(text), start + size)
    ends = list(sentence_ends(text, start, end))
    assert all(start < each <= end for each in ends)
    assert ends[-1:] == ([end] if end > start else [])


def test_clauses_end_after_commas_and_semicolons() -> None:
    text = "水泵停机，阀门关闭；a, b and 1,000: x"
    assert [text[:end].rstrip()[-1] for end in clause_ends(text, 0, len(text))] == [
        "，",
        "；",
        ",",
        ":",
    ]
    assert list(clause_ends(text, 0, 5)) == []


@pytest.mark.parametrize(
    ("text", "position", "cut"),
    [
        ("水泵温度", 2, 2),
        ("the pump runs", 6, 4),
        ("no HX-4417 is", 7, 3),
        ("costs 1,000 yuan", 8, 6),
        ("ae\u0301b", 2, 1),
        ("x" * 99, 50, 50),
        ("一👨‍👩‍👧二", 3, 1),
        ("一🇨🇳🇺🇸", 4, 3),
        ("a\r\nb", 2, 1),
        ("한", 2, 2),
    ],
)
def test_a_cut_falls_between_words_and_whole_characters(text: str, position: int, cut: int) -> None:
    assert character_boundary(text, position, 0) == cut


@given(st.text(min_size=1, max_size=60), st.data())
def test_a_cut_always_goes_forward(text: str, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, len(text) - 1))
    position = data.draw(st.integers(low + 1, len(text)))
    assert low < character_boundary(text, position, low) <= position


@pytest.mark.parametrize(
    "text",
    [" " * 10**6 + "x", "." * 10**6, "\n " * 10**6, "a" * 10**6, "”" * 10**6, "x\n" * 500_000],
)
def test_it_is_linear(text: str) -> None:
    started = time.thread_time()
    n_ends = sum(1 for _ in sentence_ends(text))
    assert n_ends >= 1
    assert time.thread_time() - started < 6
