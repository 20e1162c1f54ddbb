"""Quotes by a schema: what a model may quote, and how its JSON becomes an answer with markers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.ports import ChatRequest
from rag.core.tools import ToolSpec
from rag.core.types import ChatReply, Message
from rag.providers.quoting import QuoteReader, QuotingChatModel, quotable_sentences
from tests.unit.passages import make_passages, verify_citations

PUMP = "The pump stops. It must cool for 15 minutes."
FEE = 'The fee is "3,850" yuan & paid monthly.'
PASSAGES = [("doc_01", PUMP), ("doc_02", FEE)]
ASK = ChatRequest([Message("system", "Cite."), Message("user", "How long?")], "How long?", PASSAGES)
STATEMENTS = [
    {"text": "It cools for 15 minutes.", "quote": "It must cool for 15 minutes."},
    {"text": "It costs 3,850 yuan.", "quote": FEE},
    {"text": "That is all.", "quote": ""},
]
ANSWER = json.dumps({"statements": STATEMENTS})


class Saying:
    """Says one text, in pieces where it is streamed, and keeps what it was asked."""

    id, has_tools = "test:saying", True

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[ChatRequest] = []

    def generate(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        return ChatReply(self.text, self.id, "stop", 7, 3)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        self.asked.append(request)
        for at in range(0, len(self.text), 5):
            yield ChatReply(self.text[at : at + 5], self.id)
        yield ChatReply("", self.id, "stop", 7, 3)


def test_only_given_sentences_may_be_quoted_and_they_are_cited() -> None:
    chat = Saying(ANSWER)
    reply = QuotingChatModel(chat).generate(ASK)
    (asked,) = chat.asked
    assert asked.schema is not None
    shape = asked.schema["properties"]["statements"]["items"]["properties"]["quote"]
    assert shape["enum"] == ["", "The pump stops.", "It must cool for 15 minutes.", FEE]
    assert '"statements"' in asked.messages[0].content and asked.messages[1] == ASK.messages[1]
    text, citations = verify_citations(reply.text, make_passages(PUMP, FEE))
    assert text == "It cools for 15 minutes.[1] It costs 3,850 yuan.[2] That is all."
    assert [(one.verdict, one.doc_id) for one in citations] == [
        ("verified", "doc_01"),
        ("verified", "doc_02"),
    ]
    assert (reply.finish_reason, reply.input_tokens) == ("stop", 7)


async def test_statements_are_streamed_as_they_are_complete() -> None:
    chat = QuotingChatModel(Saying(f"```json\n{ANSWER}\n```"))
    pieces = [piece async for piece in chat.stream(ASK)]
    said = [piece.text for piece in pieces if piece.text]
    assert len(said) == 3
    assert "".join(said) == QuotingChatModel(Saying(ANSWER)).generate(ASK).text
    assert pieces[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    "text", ["It stops [1].", "{}", '{"answer": 7}', "", "{broken", "[1] says so.", "so it is"]
)
async def test_another_answer_stays_as_it_is(text: str) -> None:
    assert QuotingChatModel(Saying(text)).generate(ASK).text == text
    streamed = [piece.text async for piece in QuotingChatModel(Saying(text)).stream(ASK)]
    assert "".join(streamed) == text


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest(ASK.messages),
        ChatRequest(ASK.messages, passages=PASSAGES, tools=(ToolSpec("a", "b"),)),
        ChatRequest(ASK.messages, passages=PASSAGES, schema={}),
        ChatRequest(ASK.messages, passages=PASSAGES, options={"response_format": {}}),
        ChatRequest(ASK.messages, passages=[("doc_01", "…")]),
    ],
)
def test_what_cites_nothing_or_has_a_form_goes_on_as_it_is(request_: ChatRequest) -> None:
    chat = Saying(ANSWER)
    assert QuotingChatModel(chat).generate(request_).text == ANSWER
    assert chat.asked == [request_]


def test_a_schema_has_its_limits() -> None:
    many: Sequence[Any] = [("doc_01", "".join(f"Hall {n} is open. " for n in range(999)))]
    assert len(quotable_sentences(ChatRequest([], passages=many))) == 200
    assert quotable_sentences(ChatRequest([], passages=[("doc_01", "a" * 401)])) == {}


def test_words_that_were_not_given_are_left_to_the_check() -> None:
    reader = QuoteReader({"A.": "doc_01"})
    text = reader.feed(json.dumps({"statements": [{"text": "B is.", "quote": "B."}]}))
    assert text == '<cite quote="B.">B is.</cite>' and reader.finish() == ""


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_any_text_in_any_pieces_is_read(text: str, cuts: list[int]) -> None:
    ends = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    whole, reader = QuoteReader({"A.": "doc_01"}), QuoteReader({"A.": "doc_01"})
    pieces = [reader.feed(text[a:b]) for a, b in pairwise(ends)]
    assert "".join(pieces) + reader.finish() == whole.feed(text) + whole.finish()
