"""Verdicts on citations: which words stand where in which source."""

from __future__ import annotations

import gc
import html
import time
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.types import Citation, Verdict
from rag.stages.prompting.context import Passage
from tests.unit.passages import make_hit, make_passages, verify_citations

MANUAL = (
    "Fault E21\nThe pump stops. Wait 15 minutes until the motor is cool, then restart it.\n"
    "Never open the blue valve while the “MAIN” lamp is on.\f"
    "第二页：水泵过热时，必须等待 15 分钟让电机冷却；滤网不得清洗后重复使用。"
)
OTHER = "The monthly fee is 3,850 yuan. 服务合同每年续签一次。"
PASSAGES = make_passages(MANUAL, OTHER)


def cited(quote: str, doc_id: str = "doc_01", claim: str = "claim") -> str:
    return f'<cite doc_id="{doc_id}" quote="{html.escape(quote)}">{claim}</cite>'


def check(text: str, passages: list[Passage] | None = None) -> Citation:
    _, citations = verify_citations(text, PASSAGES if passages is None else passages)
    assert len(citations) == 1
    return citations[0]


def test_a_quote_that_stands_in_the_source_is_verified() -> None:
    citation = check(cited("Wait 15 minutes until the motor is cool"))
    assert (citation.verdict, citation.distance, citation.number) == ("verified", 0, 1)
    assert (citation.file_name, citation.file_id, citation.chunk_id) == ("file1.pdf", 1, 1)
    assert citation.found == "Wait 15 minutes until the motor is cool"
    assert citation.claim == "claim"


def test_offsets_lead_to_the_canonical_text() -> None:
    canonical = "ﬁller\n" * 100 + MANUAL + " more"
    start = canonical.index(MANUAL)
    hit = make_hit(MANUAL, start=start)
    citation = check(cited("滤网不得清洗后重复使用"), [Passage("doc_01", hit, MANUAL)])
    assert citation.char_start is not None
    assert canonical[citation.char_start : citation.char_end] == "滤网不得清洗后重复使用"


@pytest.mark.parametrize(
    ("quote", "page"), [("The pump stops.", 3), ("必须等待15分钟", 4), ("等待十五分钟", 4)]
)
def test_a_citation_names_the_page_of_its_own_words(quote: str, page: int | None) -> None:
    hit = make_hit(MANUAL, pages=(3, 4))
    assert check(cited(quote), [Passage("doc_01", hit, MANUAL)]).page == page


def test_a_format_without_pages_has_none() -> None:
    assert check(cited("The pump stops.")).page is None


TYPOGRAPHY = [
    "wait 15 minutes until the motor is cool",
    "WAIT 15 MINUTES UNTIL THE MOTOR IS COOL",
    "15\nminutes until  the motor",
    'the "MAIN" lamp is on',
    "the 'MAIN' lamp is on",
    "the pump stops…",
    "The pump stops.",
    "the pump stops。",
    "“The pump stops.”",
    "必须等待15分钟让电机冷却",
    "必须等待１５分钟让电机冷却",
    "水泵过热时,必须等待",
    "滤网不得清洗后重复使用。",
    "ﬁ".replace("ﬁ", "E21"),
    "⽔泵过热时",
    "until the mo-\ntor is cool",
    "**Never open** the blue valve while the “MAIN” lamp is on",
    "...then restart it.",
    'restart it. Never open the blue valve while the "MAIN" lamp is on',
    "FAULT E21 The pump stops",
    "_Never open_ the blue valve while the “MAIN” lamp is on",
    "濾網不得清洗後重複使用",
]


@pytest.mark.parametrize("quote", TYPOGRAPHY)
def test_typography_does_not_alter_a_quote(quote: str) -> None:
    assert check(cited(quote)).verdict == "verified"


ALTERED = [
    "Wait 50 minutes until the motor is cool",
    "Wait 15 hours until the motor is cool",
    "Wait 5 minutes until the motor is cool",
    "Open the blue valve while the MAIN lamp is on",
    "open the blue valve while the MAIN lamp is on",
    "Never open the red valve while",
    "then restart it. The pump stops. Wait",
    "Wait 15 minutes until the motor is col",
    "wait 15 minute",
    "5 minutes until the motor is cool",
    "until the motor is cool, then stop it",
    "until the motor is not cool, then restart it",
    "必须等待 25 分钟让电机冷却",
    "不必等待 15 分钟让电机冷却",
    "滤网得清洗后重复使用",
    "得清洗后重复使用",
    "滤网不得重复清洗后使用",
    "必须等待 15 小时让电机冷却",
    "Wait 15 minutes until the motor",
    "Never open the blue valve",
]


@pytest.mark.parametrize("quote", ALTERED)
def test_a_change_of_meaning_alters_a_quote(quote: str) -> None:
    citation = check(cited(quote))
    assert citation.verdict == "altered"
    assert citation.distance >= 1
    assert citation.found in MANUAL
    assert citation.found


STRICT = {
    "Wait 15 minutes until the motor is cool": "altered",
    "Wait 15 minutes until the motor is cool, then restart it.": "verified",
    "wait 15 minutes until the motor is cool, then restart it": "verified",
    "then restart it.": "altered",
    "水泵过热时,必须等待": "altered",
    "The pump stops.": "verified",
}


@pytest.mark.parametrize("quote", STRICT)
def test_when_whole_sentences_are_wanted_a_part_is_altered(quote: str) -> None:
    _, (citation,) = verify_citations(cited(quote), PASSAGES, is_strict=True)
    assert citation.verdict == STRICT[quote]
    assert citation.found


def test_a_quote_that_is_cut_shows_what_it_was_cut_from() -> None:
    _, (citation,) = verify_citations(cited("then restart it"), PASSAGES, is_strict=True)
    assert citation.found == "Wait 15 minutes until the motor is cool, then restart it"
    citation = check(cited("Never open the blue valve"))
    assert citation.found.startswith("Never open the blue valve while")


def test_an_edited_chunk_gives_its_own_span_as_the_place() -> None:
    hit = replace(make_hit("The old pump never stops.", start=100), char_end=900)
    citation = check(cited("The old pump never stops."), [Passage("doc_01", hit, hit.text)])
    assert (citation.verdict, citation.char_start, citation.char_end) == ("verified", 100, 900)


def test_the_words_of_another_passage_are_found_among_hundreds() -> None:
    texts = [f"The pump of hall {n} stops at {n} bar." for n in range(300)]
    passages = make_passages(*texts)
    _, citations = verify_citations(
        cited(texts[299], "doc_01") + cited(texts[150], "doc_300") + cited("no such words"),
        passages,
    )
    found = [(citation.verdict, citation.doc_id) for citation in citations]
    assert found == [
        ("wrong_document", "doc_300"),
        ("wrong_document", "doc_151"),
        ("unknown", "doc_01"),
    ]


def test_the_closest_words_are_shown_for_an_altered_quote() -> None:
    citation = check(cited("必须等待 25 分钟让电机冷却"))
    assert (citation.found, citation.distance) == ("必须等待 15 分钟让电机冷却", 1)


def test_a_quote_of_another_source_names_the_right_one() -> None:
    citation = check(cited("The monthly fee is 3,850 yuan", "doc_01"))
    assert (citation.verdict, citation.doc_id) == ("wrong_document", "doc_02")
    assert (citation.file_name, citation.found) == ("file2.pdf", "The monthly fee is 3,850 yuan")
    citation = check(cited("The monthly fee is 3,850 yuan", "doc_77"))
    assert (citation.verdict, citation.doc_id) == ("wrong_document", "doc_02")


@pytest.mark.parametrize(
    "text",
    [
        cited("The moon is made of green cheese."),
        cited("月亮围绕地球转动"),
        cited("不存在的话", "doc_99"),
        cited("", claim=""),
        cited("。"),
        cited("a"),
        "<cite>nothing of it</cite>",
        "A lie [7].",
    ],
)
def test_what_nothing_supports_is_kept_as_unknown(text: str) -> None:
    citation = check(text)
    assert citation.verdict == "unknown"
    assert (citation.char_start, citation.file_id, citation.found) == (None, None, "")


@pytest.mark.parametrize("doc_id", ["doc_01", "doc_1", "1", "DOC-01", "doc1"])
def test_a_document_is_known_by_its_number_too(doc_id: str) -> None:
    citation = check(cited("The pump stops.", doc_id))
    assert (citation.verdict, citation.doc_id) == ("verified", "doc_01")


@pytest.mark.parametrize("doc_id", ["0", "3", "1000", "x", "１", "-1", "doc_²"])
def test_other_ids_name_no_document(doc_id: str) -> None:
    assert check(cited("The pump stops.", doc_id)).verdict == "wrong_document"


def test_where_no_document_is_named_none_is_named_wrongly() -> None:
    citation = check("<cite>The monthly fee is 3,850 yuan</cite>")
    assert (citation.verdict, citation.doc_id) == ("verified", "doc_02")


def test_the_claim_stands_in_for_a_missing_quote() -> None:
    assert check('<cite doc_id="doc_01">The pump stops.</cite>').verdict == "verified"
    assert check('<cite doc_id="doc_01">The pump never stops.</cite>').verdict == "altered"


NUMBERED = {
    "The pump stops [1].": "verified",
    "Because of that, yes. The pump stops. [1]": "verified",
    "先关灯。必须等待15分钟让电机冷却。[1]": "verified",
    "必须等待20分钟让电机冷却【1】。": "altered",
    "The pump stops [2].": "wrong_document",
    "Let it cool for a quarter of an hour [1].": "unknown",
}


@pytest.mark.parametrize("text", NUMBERED)
def test_a_bare_number_is_checked_by_its_sentence(text: str) -> None:
    assert check(text).verdict == NUMBERED[text]


def test_citations_are_numbered_in_the_text() -> None:
    text = (
        f"A: {cited('The pump stops.', claim='it stops')}, fee {cited('3,850 yuan', 'doc_02')} [2]."
    )
    answer, citations = verify_citations(text, PASSAGES)
    assert answer == "A: it stops[1], fee claim[2] [3]."
    assert [citation.number for citation in citations] == [1, 2, 3]
    assert [citation.verdict for citation in citations][:2] == ["verified", "verified"]


def test_an_answer_without_markers_stays_as_it_is() -> None:
    assert verify_citations("Nothing was found.", PASSAGES) == ("Nothing was found.", ())
    assert verify_citations("", []) == ("", ())


def test_without_sources_every_citation_is_unknown() -> None:
    assert check(cited("The pump stops."), []).verdict == "unknown"


PIECES = ["<cite ", 'doc_id="doc_01"', ' quote="', '">', "</cite>", "[1]", "The pump stops.", "15"]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=25))
def test_no_answer_raises_and_every_offset_is_right(pieces: list[str]) -> None:
    _, citations = verify_citations("".join(pieces), PASSAGES)
    for citation in citations:
        assert citation.verdict in get_args(Verdict)
        if citation.char_start is not None:
            source = {"doc_01": MANUAL, "doc_02": OTHER}[citation.doc_id]
            assert source[citation.char_start : citation.char_end] == citation.found != ""


@given(st.data())
def test_whole_sentences_are_verified_anywhere(data: st.DataObject) -> None:
    words = st.text(st.sampled_from("abcd电机水泵 15\n“”-"), min_size=3, max_size=60)
    sentences = [f"B{text}E" for text in data.draw(st.lists(words, min_size=1, max_size=8))]
    source = "。\n".join(sentences)
    quote = data.draw(st.sampled_from(sentences))
    assert check(cited(quote), make_passages("", source[::-1], source)[2:]).verdict != "altered"


def test_ten_citations_over_forty_thousand_characters_take_five_milliseconds() -> None:
    lines = [
        f"条目 {n}：水泵 HX-{n} must cool for {n % 60} minutes，然后重启。\n" for n in range(1100)
    ]
    texts = ["".join(lines[n * 100 : n * 100 + 110])[:4000] for n in range(10)]
    passages = make_passages(*texts)
    answer = "\n".join(
        cited(text.splitlines()[40].replace("must", "may" if n % 2 else "must"), f"doc_{n + 1:02d}")
        for n, text in enumerate(texts)
    )
    times = []
    # What other tests have left on the heap is not searched meanwhile, as in no server either.
    gc.collect()
    gc.disable()
    try:
        for _ in range(40):
            started = time.process_time()
            _, citations = verify_citations(answer, passages)
            times.append(time.process_time() - started)
    finally:
        gc.enable()
    assert [citation.verdict for citation in citations] == ["verified", "altered"] * 5
    assert sum(map(len, texts)) == 40_000
    # A busy machine may be slower than the 5 ms that the benchmark measures.
    # Half of the quotes do not hold: what they stand by is looked for in the sources as well.
    assert sorted(times)[38] < 0.04
    assert sorted(times)[5] < 0.012
