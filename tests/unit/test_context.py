"""Hits as text within a budget, in both languages and every layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import UnknownNameError
from rag.core.types import Hit
from rag.stages.context import TYPES, Context, build_context
from tests.fakes.words_embedder import WordTokenizer
from tests.unit.passages import make_hit

count = WordTokenizer().count
LONG = "The pump stops at once. " * 80


def hits(*texts: str) -> list[Hit]:
    return [make_hit(text, number=n, pages=(n, n)) for n, text in enumerate(texts, 1)]


def build(found: list[Hit], max_tokens: int = 1000, **more: str) -> Context:
    return build_context(found, max_tokens, count, **more)


def test_no_hits_give_an_empty_context() -> None:
    assert build([]) == Context("", ())


def test_sources_are_numbered_with_file_page_and_heading() -> None:
    context = build(hits("The pump stops.", "Wait."))
    assert context.text == (
        "[Sources]\n\n"
        "[1] (doc_01) 【document】file1.pdf · page 1 · Care\nThe pump stops.\n\n"
        "[2] (doc_02) 【document】file2.pdf · page 2 · Care\nWait."
    )
    assert [passage.doc_id for passage in context.passages] == ["doc_01", "doc_02"]
    assert [passage.hit.chunk_id for passage in context.passages] == [1, 2]
    assert not context.is_cut


def test_the_wording_follows_the_language_of_the_question() -> None:
    found = hits("The pump stops.")
    assert build(found, language_of="水泵怎么了？").text.startswith("【参考资料】\n\n[1]")
    assert "第 1 页" in build(found, language_of="水泵怎么了？").text
    assert build(hits("水泵停止。")).text.startswith("【参考资料】")


def test_a_format_without_pages_names_none() -> None:
    assert "file1.pdf · Care\n" in build([make_hit("text")]).text


def test_detailed_adds_score_and_metadata() -> None:
    found = [replace(hits("The pump stops.")[0], score=0.876, metadata={"b": 2, "a": "x"})]
    context = build(found, context_type="detailed")
    assert context.text.startswith("[Sources in detail]")
    assert "Care\nRelevance: 0.88\na: x\nb: 2\nThe pump stops." in context.text


def test_summary_groups_by_content_type_with_three_of_each() -> None:
    found = [
        replace(hit, content_type="outline" if n % 2 else "document")
        for n, hit in enumerate(hits(*[f"Text {n}." for n in range(9)]))
    ]
    context = build(found, context_type="summary")
    assert context.text.count("【document】 (5)") == context.text.count("【outline】 (4)") == 1
    assert [passage.hit.chunk_id for passage in context.passages] == [1, 3, 5, 2, 4, 6]
    assert [passage.doc_id for passage in context.passages] == [f"doc_{n:02d}" for n in range(1, 7)]
    assert "- [4] file2.pdf" in context.text


def test_summary_shortens_each_hit() -> None:
    context = build(hits(LONG), context_type="summary")
    assert count(context.passages[0].text) <= 60
    assert context.is_cut


def test_a_hit_has_its_own_limit_that_detailed_lifts() -> None:
    found = hits(LONG * 2)
    assert count(build(found, 5000).passages[0].text) <= 500
    assert build(found, 5000, context_type="detailed").passages[0].text == found[0].text


def test_what_does_not_fit_is_cut_at_a_sentence_and_says_so() -> None:
    context = build(hits(LONG), 120)
    text = context.passages[0].text
    assert text.endswith("The pump stops at once.… (cut)")
    assert context.is_cut
    context = build(hits("水泵停止。" * 300), 120)
    assert context.passages[0].text.endswith("水泵停止。…（内容已截断）")


def test_hits_without_room_are_left_out_and_it_says_so() -> None:
    context = build(hits(LONG, LONG, LONG), 200)
    assert len(context.passages) < 3
    assert context.text.endswith("… (cut)")
    assert context.is_cut


def test_a_cut_that_the_mark_makes_longer_is_a_cut() -> None:
    found = hits("One two three four five. " * 5 + "Six.")
    full = count(found[0].text)
    for max_tokens in range(30, full + 60):
        context = build(found, max_tokens)
        for passage in context.passages:
            assert context.is_cut == (passage.text != found[0].text)


def test_a_text_without_sentences_is_cut_between_characters() -> None:
    text = "e\u0301水👩\u200d🔬" * 400
    kept = build(hits(text), 150).passages[0].text.partition("…")[0]
    assert text.startswith(kept)
    rest = text[len(kept) :]
    assert rest[0] not in "\u0301\u200d"
    assert kept[-1] != "\u200d"


def test_an_unknown_layout_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="Known: detailed, standard, summary"):
        build([], context_type="xml2")


@given(
    st.lists(st.text(st.sampled_from("ab 水。. \n\f"), max_size=400), max_size=8),
    st.integers(100, 600),
    st.sampled_from(TYPES),
)
def test_the_budget_holds_and_passages_begin_their_hits(
    texts: list[str], max_tokens: int, context_type: str
) -> None:
    found = hits(*texts)
    context = build(found, max_tokens, context_type=context_type)
    assert count(context.text) <= max_tokens
    for passage in context.passages:
        kept = passage.text if passage.text in passage.hit.text else passage.text.rpartition("…")[0]
        assert passage.hit.text.startswith(kept)
        assert passage.text in context.text
