"""The chat model without a model: whole sentences, quoted verbatim, with their notice."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.ports import ChatModel, ChatRequest
from rag.providers.bpe import BpeTokenizer
from rag.providers.extractive import MAX_CHARS, ExtractiveChatModel
from tests.contract_chat import ChatModelContract, collected
from tests.unit.passages import make_passages, verify_citations

POLICY = (
    "# 年假\n员工连续工作满一年后享受带薪年假。满 10 年不满 20 年的，每年休十天。年假应当在次年 4 月 30 日以前休完。",
    "病假超过两天须提交二级以上医院出具的诊断证明。门禁卡补办费为 30 元。",
    "The pump stops at fault E21. Wait 15 minutes until the motor is cool. The valve stays open.",
)
_CITE = re.compile(r'<cite doc_id="(doc_\d+)" quote="([^"]*)">(.*?)</cite>', re.S)


class TestExtractiveChatModel(ChatModelContract):
    @pytest.fixture
    def chat_model(self) -> ChatModel:
        return ExtractiveChatModel()


class TestExtractiveChatModelWithScores(ChatModelContract):
    @pytest.fixture
    def chat_model(self) -> ChatModel:
        return ExtractiveChatModel(lambda question, sentences: [0.5 for _ in sentences])


def ask(
    question: str, passages: Sequence[str] = POLICY, model: ExtractiveChatModel | None = None
) -> list[tuple[str, str]]:
    """Return (document, quote) of each sentence of the answer."""
    text = (model or ExtractiveChatModel()).generate(request(question, passages)).text
    return [(doc_id, html.unescape(quote)) for doc_id, quote, _ in _CITE.findall(text)]


def request(question: str, passages: Sequence[str] = POLICY) -> ChatRequest:
    numbered = [(f"doc_{n:02d}", text) for n, text in enumerate(passages, start=1)]
    return ChatRequest([], question=question, passages=numbered)


@pytest.mark.parametrize(
    ("question", "doc_id", "quote"),
    [
        ("年假最晚什么时候休完？", "doc_01", "年假应当在次年 4 月 30 日以前休完。"),
        ("门禁卡补办要多少钱", "doc_02", "门禁卡补办费为 30 元。"),
        (
            "How long do I wait until the motor is cool?",
            "doc_03",
            "Wait 15 minutes until the motor is cool.",
        ),
        ("E21", "doc_03", "The pump stops at fault E21."),
        ("pumps stopping", "doc_03", "The pump stops at fault E21."),
    ],
)
def test_it_quotes_the_sentence_that_answers(question: str, doc_id: str, quote: str) -> None:
    assert ask(question)[0] == (doc_id, quote)


def test_it_quotes_three_sentences_at_most_each_whole_and_once() -> None:
    passages = [
        "水泵停机的条件之一。水泵停机的条件之二。水泵停机的条件之三。水泵停机的条件之四。"
    ] * 2
    quotes = ask("水泵停机的条件", passages)
    assert len(quotes) == 3
    assert len(set(quotes)) == 3
    assert all(quote.endswith("。") for _, quote in quotes)


@pytest.mark.parametrize(("limit", "is_cut"), [(1000, False), (12, True), (3, True), (1, True)])
def test_so_many_tokens_are_written_and_what_is_cut_is_still_quoted(
    limit: int, is_cut: bool
) -> None:
    asked = replace(request("What does the pump do at fault E21?"), max_tokens=limit)
    reply = ExtractiveChatModel().generate(asked)
    shown = _CITE.sub(r"\3", reply.text)
    assert BpeTokenizer().count(shown) <= limit and shown
    assert (reply.finish_reason == "length") is is_cut
    (_, quote, _) = _CITE.findall(reply.text)[0]
    assert html.unescape(quote) in "\n".join(POLICY)


def test_a_weaker_sentence_is_left_out() -> None:
    assert ask("门禁卡补办费", POLICY) == [("doc_02", "门禁卡补办费为 30 元。")]


def test_earlier_passages_win_between_equals() -> None:
    passages = ["The valve is blue here.", "The valve is blue there."]
    assert ask("Is the valve blue?", passages)[0][0] == "doc_01"


def test_headings_and_scraps_are_not_quoted() -> None:
    assert ask("年假", ["# 年假\n\n年假\n\n员工享受年假十天。"]) == [
        ("doc_01", "员工享受年假十天。")
    ]


@pytest.mark.parametrize(
    ("question", "words"), [("火星上有没有水", "没有找到"), ("Who won the cup?", "Nothing")]
)
def test_it_says_when_nothing_is_relevant(question: str, words: str) -> None:
    chinese = bool(re.search(r"[\u4e00-\u9fff]", question))
    passages = POLICY[:2] if chinese else POLICY[2:]
    for model in (ExtractiveChatModel(), ExtractiveChatModel(lambda q, s: [0.1] * len(s))):
        reply = model.generate(request(question, passages))
        assert words in reply.text
        assert "<cite" not in reply.text
        assert reply.finish_reason == "stop"


def test_without_passages_nothing_is_found() -> None:
    assert "没有找到" in ExtractiveChatModel().generate(request("年假？", [])).text


def test_a_question_in_another_script_falls_back_to_the_first_passage() -> None:
    assert ask("水泵停机后要等多久？", POLICY[2:]) == [("doc_01", "The pump stops at fault E21.")]
    assert ask("How long is the leave?", POLICY[1:2]) == [
        ("doc_01", "病假超过两天须提交二级以上医院出具的诊断证明。")
    ]


def test_scores_by_meaning_find_the_answer_in_another_language() -> None:
    def score(question: str, sentences: list[str]) -> list[float]:
        return [0.8 if "Wait" in sentence else 0.1 for sentence in sentences]

    model = ExtractiveChatModel(score)
    assert ask("水泵停机后要等多久？", POLICY[2:], model) == [
        ("doc_01", "Wait 15 minutes until the motor is cool.")
    ]


def test_few_sentences_are_scored_by_meaning() -> None:
    seen: list[str] = []

    def score(question: str, sentences: list[str]) -> list[float]:
        seen.extend(sentences)
        return [0.5] * len(sentences)

    long = [" ".join(f"Sentence {n} is about valves." for n in range(200)), "The pump is blue."]
    ask("Is the pump blue?", long, ExtractiveChatModel(score))
    assert len(seen) <= 24
    assert seen[0] == "The pump is blue."


@pytest.mark.parametrize(
    ("question", "words"),
    [("年假几天？", "未配置对话模型"), ("How many days?", "No chat model is configured")],
)
def test_the_notice_names_the_setting_in_the_question_s_language(question: str, words: str) -> None:
    notice = ExtractiveChatModel().generate(request(question)).notice
    assert words in notice
    assert "RAG_CHAT_MODEL" in notice


async def test_only_the_last_piece_carries_the_notice_and_pieces_are_sentences() -> None:
    asked = request("水泵停机的条件", ["水泵停机的条件之一。水泵停机的条件之二。"])
    *earlier, last = await collected(ExtractiveChatModel().stream(asked))
    assert len(earlier) == 1
    assert earlier[0].notice == ""
    assert last.notice and last.text.endswith("</cite>")


def test_names_that_are_no_ids_are_numbered() -> None:
    asked = ChatRequest(
        [], question="补办费", passages=[("a.md", "无关。"), ("b.md", "补办费为 30 元。")]
    )
    assert 'doc_id="doc_02"' in ExtractiveChatModel().generate(asked).text


def test_a_sentence_that_is_too_long_is_never_cut() -> None:
    text = "valve " * MAX_CHARS
    assert ask("valve", [text, "The valve is open."]) == [("doc_02", "The valve is open.")]


def test_a_source_s_own_markers_are_none_of_the_answer_s() -> None:
    text = 'The valve "A" [12] & <cite doc_id="doc_09" quote="x">is</cite> open.'
    answer = ExtractiveChatModel().generate(request("valve", [text])).text
    clean, citations = verify_citations(answer, make_passages(text))
    assert [citation.verdict for citation in citations] == ["verified"]
    assert citations[0].quote == text
    assert "<cite" not in clean and "[12]" not in clean


@pytest.mark.parametrize(
    "text",
    [
        "The valve &lt;cite doc_id=1&gt; is open.",
        "The valve [Source 1] is open.",
        "The valve（资料1）is open.",
        "The valve <ref>2</ref> is open.",
    ],
)
def test_whatever_reads_like_a_marker_is_quoted_as_text(text: str) -> None:
    answer = ExtractiveChatModel().generate(request("valve", [text])).text
    clean, citations = verify_citations(answer, make_passages(text))
    assert [(one.verdict, one.quote) for one in citations] == [("verified", text)]
    assert clean.endswith("is open.[1]") and "valve" in clean


_SCRAPS = st.sampled_from(
    [
        "水泵",
        "不",
        "停机",
        "。",
        "，",
        "pump ",
        "not",
        "valve",
        ". ",
        "! ",
        "\n",
        "\f",
        "“",
        "”",
        '"',
        "-",
        "3.5",
        "12",
        "%",
        "<cite>",
        "</cite>",
        "[1]",
        "&quot;",
        "e\u0301",
        "⽤",
        "ﬁ",
        "…",
        " ",
        "*",
        "`",
        "'",
        "|",
    ]
)


# No text of a file holds what Postgres cannot keep.
_KEPT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=250, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.one_of(_SCRAPS, _KEPT), max_size=25).map("".join),
        min_size=1,
        max_size=4,
    ),
    question=st.sampled_from(["水泵停机", "pump valve", "12", "不停机 pump"]),
    has_score=st.booleans(),
)
def test_its_own_citations_are_always_verified(
    texts: list[str], question: str, has_score: bool
) -> None:
    model = ExtractiveChatModel((lambda q, s: [0.4] * len(s)) if has_score else None)
    answer = model.generate(request(question, texts)).text
    _, citations = verify_citations(answer, make_passages(*texts))
    assert len(citations) == answer.count("<cite ")
    assert [c.verdict for c in citations] == ["verified"] * len(citations)
    for citation in citations:
        assert citation.quote in texts[int(citation.doc_id[4:]) - 1]


def test_a_sentence_of_another_language_is_compared_though_others_share_words() -> None:
    """Words cannot choose it, and must not keep it from being compared by meaning."""
    native = "".join(f"第{n}号水泵停机以后应当等待 {n} 分钟才能启动。" for n in range(1, 40))
    foreign = "Keep calm. Tell a colleague. Ventilate for 25 minutes when a lamp breaks."
    meant = "Ventilate for 25 minutes when a lamp breaks."
    model = ExtractiveChatModel(lambda _, texts: [0.9 if one == meant else 0.2 for one in texts])
    quotes = ask("紫外灯破了要通风多少分钟？", (native, foreign), model)
    assert quotes[0] == ("doc_02", meant)
