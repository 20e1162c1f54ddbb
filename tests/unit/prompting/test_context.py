"""Contexts: numbered sources, a budget in tokens that holds, cuts that say so."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.errors import UnknownNameError
from rag.core.hits import Hit, Leg
from rag.core.types import CONTEXT_TYPES
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.stages.prompting.context import Context, _Packing, build_context, layout_for
from tests.unit.cutting import byte_level, unigram

COUNTERS: dict[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "unigram": unigram().count,
    "bytes": byte_level().count,
}
TEXTS = (
    st.lists(
        st.sampled_from(
            [
                "水泵停机。",
                "The pump stops. ",
                "，",
                "\n",
                "👨‍👩‍👧",
                "e\u0301",
                "[12]",
                "x" * 90,
                "水" * 50,
                '<cite doc_id="a" quote="b">',
                "---",
                " ",
            ]
        ),
        min_size=1,
        max_size=30,
    )
    .map("".join)
    .filter(str.strip)
)


def hit(text: str, **facts: object) -> Hit:
    known: dict[str, object] = {
        "chunk_id": 1,
        "revision": 1,
        "store_id": 1,
        "file_id": 1,
        "file_name": "员工手册.docx",
        "text": text,
        "rank": 1,
        "score": 0.8312,
        "vector": Leg(),
        "lexical": Leg(),
        "matched_terms": (),
        "char_start": 0,
        "char_end": len(text),
        "page_first": None,
        "page_last": None,
        "heading_path": (),
        "content_type": "document",
        "token_count": 9,
    }
    return Hit(**{**known, **facts})  # type: ignore[arg-type]


def build(hits: list[Hit], max_tokens: int = 4000, **options: str) -> Context:
    return build_context(hits, max_tokens, len, **options)


def test_standard_numbers_sources_with_type_name_place_and_page() -> None:
    context = build(
        [
            hit("年假为十天。", heading_path=("第三章", "年假"), page_first=3, page_last=3),
            hit("病假须有证明。", content_type="manual", page_first=3, page_last=4),
        ]
    )
    assert context.text == (
        "【参考资料】\n\n"
        "1. (doc_01) 【document】员工手册.docx · 第三章 › 年假 · 第 3 页\n年假为十天。\n---\n\n"
        "2. (doc_02) 【manual】员工手册.docx · 第 3–4 页\n病假须有证明。\n---"
    )
    assert [(p.doc_id, p.text) for p in context.passages] == [
        ("doc_01", "年假为十天。"),
        ("doc_02", "病假须有证明。"),
    ]
    assert not context.is_cut


def test_detailed_adds_score_and_metadata() -> None:
    context = build(
        [
            hit(
                "Ten days.",
                file_name="a.pdf",
                page_first=2,
                page_last=2,
                metadata={"team": "HR", "year": 2024},
            )
        ],
        context_type="detailed",
        language_of="How many days?",
    )
    assert context.text == (
        "[Sources in detail]\n\n━━━ Source 1 (doc_01) ━━━\nType: document\nName: a.pdf\npage 2\n"
        "Relevance: 0.83\nteam: HR\nyear: 2024\n\nContent:\nTen days.\n━━━━━━━━━━━━━"
    )


def test_summary_groups_by_type_and_shows_three_of_each() -> None:
    hits = [hit(f"第{n}条。", content_type="manual" if n % 2 else "faq") for n in range(9)]
    context = build(hits, context_type="summary")
    lines = context.text.split("\n")
    assert [line for line in lines if line.startswith("【")] == [
        "【参考资料摘要】",
        "【faq】（5 条）",
        "【manual】（4 条）",
    ]
    assert [p.hit.text for p in context.passages] == [f"第{n}条。" for n in (0, 2, 4, 1, 3, 5)]
    assert "- [4] doc_04 员工手册.docx：第1条。" in lines
    assert lines[-1] == "（另有 3 条资料未列出）"


def test_summary_keeps_each_hit_short() -> None:
    (passage,) = build([hit("水泵在夜间停机。" * 50)], context_type="summary").passages
    assert passage.text.endswith("。")
    assert 20 < len(passage.text) <= 60


@pytest.mark.parametrize(
    ("language_of", "text", "title"),
    [
        ("年假？", "x", "【参考资料】"),
        ("leave?", "年假", "[Sources]"),
        ("", "年假", "【参考资料】"),
        ("", "Leave", "[Sources]"),
    ],
)
def test_wording_follows_the_query_s_script(language_of: str, text: str, title: str) -> None:
    assert build([hit(text)], language_of=language_of).text.startswith(title)


def test_no_hits_give_no_text() -> None:
    assert build([]) == Context("", ())


def test_an_unknown_type_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="detailed, standard, summary, xml"):
        build([hit("x")], context_type="essay")


def test_what_is_cut_ends_with_a_sentence_and_says_so() -> None:
    context = build([hit("水泵在夜间停机。阀门保持开启。" * 40)], 200)
    (passage,) = context.passages
    assert passage.text.endswith("。")
    assert "。…（内容已截断）\n---" in context.text
    assert context.is_cut
    assert 120 < len(context.text) <= 200


def test_without_a_sentence_end_it_is_cut_at_a_clause_or_a_word() -> None:
    (passage,) = build([hit("水泵的温度，阀门的压力，" * 40)], 200).passages
    assert passage.text.endswith("，")
    (passage,) = build([hit("kettle warden " * 60)], 200).passages
    assert set(passage.text.split()) == {"kettle", "warden"}


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    hits = [hit("水泵在夜间停机。" * 10, file_id=n) for n in range(8)]
    context = build(hits, 400)
    assert 1 < len(context.passages) < 8
    assert context.text.endswith(f"（另有 {8 - len(context.passages)} 条资料未列出）")
    assert context.is_cut


def test_the_budget_holds_though_joined_parts_cost_more() -> None:
    def count(text: str) -> int:
        return len(text) + 9 * text.count("---\n\n")

    hits = [hit("水泵在夜间停机。" * 4, file_id=n) for n in range(9)]
    for size in range(100, 500, 7):
        context = build_context(hits, size, count)
        assert count(context.text) <= size
        assert bool(context.passages) == bool(context.text)


@pytest.mark.parametrize("max_tokens", [0, -1, -4000])
def test_without_any_room_all_is_left_out(max_tokens: int) -> None:
    assert build_context([hit("kettle")], max_tokens, len) == Context("", (), True)
    assert build_context([], max_tokens, len) == Context("", (), False)


def test_a_marker_is_never_parted() -> None:
    text = "水泵停机 [12, 13] " * 60
    for size in range(100, 260):
        for passage in build([hit(text)], size).passages:
            assert passage.text.count("[") == passage.text.count("]")


@pytest.mark.parametrize("name", COUNTERS)
@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(TEXTS, max_size=7),
    max_tokens=st.integers(1, 700),
    context_type=st.sampled_from(CONTEXT_TYPES),
    data=st.data(),
)
def test_the_budget_always_holds(
    name: str, texts: list[str], max_tokens: int, context_type: str, data: st.DataObject
) -> None:
    count = COUNTERS[name]
    kinds = st.sampled_from(["faq", "manual", ""])
    hits = [
        hit(text, content_type=data.draw(kinds), page_first=n, page_last=n)
        for n, text in enumerate(texts)
    ]
    context = build_context(hits, max_tokens, count, context_type=context_type)
    assert count(context.text) <= max_tokens or context.text == ""
    assert [p.doc_id for p in context.passages] == [
        f"doc_{n + 1:02d}" for n in range(len(context.passages))
    ]
    is_whole = len(context.passages) == len(hits)
    for passage in context.passages:
        assert passage.hit in hits
        full = passage.hit.text.strip()
        assert full.startswith(passage.text) and passage.text
        is_whole = is_whole and passage.text == full
        rest = full[len(passage.text) :]
        assert not rest or (unicodedata.category(rest[0])[0] != "M" and rest[0] != "\u200d")
        shown = " ".join(passage.text.split()) if context_type == "summary" else passage.text
        assert (escape(shown) if context_type == "xml" else shown) in context.text
    assert context.is_cut == (not is_whole)
    assert not re.search(r"doc_(\d+).*\n.*doc_\1\b", context.text)


def test_default_budget_with_the_default_model_s_tokens() -> None:
    count = E5Tokenizer().count
    hits = [
        hit("水泵在夜间停机，阀门保持开启。The pump stops at night. " * 12, file_id=n)
        for n in range(30)
    ]
    context = build_context(hits, 4000, count)
    assert 3600 < count(context.text) <= 4000
    assert len(context.passages) > 10


@given(texts=st.lists(TEXTS, min_size=1, max_size=5), kind=st.sampled_from((*CONTEXT_TYPES, "xml")))
@settings(max_examples=60, deadline=None)
def test_what_fits_whole_is_what_packing_makes_of_it(texts: list[str], kind: str) -> None:
    hits = [hit(text, chunk_id=number) for number, text in enumerate(texts)]
    packing = _Packing(layout_for(kind, is_chinese=True), len, 10**6)
    whole = packing.whole(hits)
    assert whole in (None, packing.of(hits))
    is_short = all(len(text.strip()) <= packing.layout.max_tokens for text in texts)
    assert (whole is not None) == (is_short and len(packing._ordered(hits)[0]) == len(hits))


def test_what_fits_whole_is_measured_once() -> None:
    measured: list[str] = []

    def count(text: str) -> int:
        measured.append(text)
        return len(text)

    hits = [hit("年假为十天。" * 9, chunk_id=number) for number in range(5)]
    context = build_context(hits, 4000, count)
    assert measured == [*(one.text for one in hits), context.text]


@pytest.mark.parametrize(
    ("carried", "told", "attribute"),
    [
        ("| Name | Price |", "Columns of the table: | Name | Price |", "columns="),
        (
            "These are needed:",
            "It goes on from: These are needed:",
            'continues="These are needed:"',
        ),
    ],
)
def test_what_a_text_goes_on_from_is_told(carried: str, told: str, attribute: str) -> None:
    hits = [hit("a seal", table_header=carried)]
    assert told in build_context(hits, 500, len).text
    assert attribute in build_context(hits, 500, len, context_type="xml").text
