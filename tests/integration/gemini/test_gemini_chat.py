"""Chat over the google-genai SDK against a loopback Gemini."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rag.core.errors import InvalidInputError, ProviderError, ProviderTimeoutError
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Message
from rag.providers.gemini.chat import GeminiChatModel, GeminiChatOptions
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.remote.retry import RetryPolicy
from tests.contract_chat import ChatModelContract, collected
from tests.fakes.gemini_server import GeminiServer, Script, camel, error
from tests.fakes.loopback import Fault

KEY = "AIza-secret-0123456789"
FAST = RetryPolicy(max_attempts=4, first_wait_s=0.005, max_wait_s=0.01, deadline_s=5.0)
ASK = ChatRequest([Message("user", "保固期多久？")], timeout_s=5.0)
ANSWER = "保固期為兩年 [1]。"


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


def chat(server: GeminiServer, **config: Any) -> GeminiChatModel:
    options = GeminiChatOptions(config, FAST)
    return GeminiChatModel("gemini-2.5-flash", GeminiEndpoint(KEY, server.url), options=options)


def sent(server: GeminiServer) -> dict[str, Any]:
    found: dict[str, Any] = camel(server.calls[-1].json)
    return found


class TestContract(ChatModelContract):
    @pytest.fixture
    def chat_model(self, server: GeminiServer) -> ChatModel:
        return chat(server)


def test_an_answer_has_text_reason_and_tokens(server: GeminiServer) -> None:
    reply = chat(server).generate(ASK)
    assert reply == ChatReply(ANSWER, "gemini:gemini-2.5-flash", "stop", 7, 2)
    assert server.calls[-1].path == "/v1beta/models/gemini-2.5-flash:generateContent"


async def test_a_stream_gives_pieces_then_reason_and_tokens(server: GeminiServer) -> None:
    pieces = await collected(chat(server).stream(ASK))
    assert [piece.text for piece in pieces] == ["保固期", "為兩年 [1]。", ""]
    assert pieces[-1] == ChatReply("", "gemini:gemini-2.5-flash", "stop", 7, 2)
    assert server.calls[-1].query == {"alt": "sse"}


async def test_pieces_come_as_they_are_made(server: GeminiServer) -> None:
    server.chat = Script(pause_s=0.3)
    stream = chat(server).stream(ASK)
    await anext(stream)
    first_at = time.monotonic()
    await collected(stream)
    assert time.monotonic() - first_at >= 0.2


def test_turns_and_system_message_are_told_apart(server: GeminiServer) -> None:
    messages = [
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message("assistant", "Hello."),
        Message("user", "How long?"),
        Message("system", "Cite."),
    ]
    chat(server).generate(replace(ASK, messages=messages, temperature=0.0, max_tokens=99))
    body = sent(server)
    turns = [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]]
    assert turns == [("user", "Hi"), ("model", "Hello."), ("user", "How long?")]
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief.\n\nCite."}]
    assert body["generationConfig"] == {"temperature": 0.0, "maxOutputTokens": 99}


def test_options_of_model_and_request_go_over_the_wire(server: GeminiServer) -> None:
    model = chat(server, thinking_budget=0, top_p=0.5)
    model.generate(replace(ASK, options={"top_p": 0.9, "seed": 7}))
    assert sent(server)["generationConfig"] == {
        "temperature": 0.2,
        "maxOutputTokens": 2048,
        "topP": 0.9,
        "seed": 7,
        "thinkingConfig": {"thinkingBudget": 0},
    }
    model.generate(replace(ASK, options={"thinking_budget": 512}))
    assert sent(server)["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 512}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"thinking_budget": "much"}, "The model option thinking_config.thinking_budget is wrong"),
        ({"no_such_option": 1}, "The model option no_such_option is wrong"),
        ({"tools": []}, "“tools” cannot be set"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_sent(
    server: GeminiServer, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        chat(server).generate(replace(ASK, options=options))
    assert words in str(caught.value)
    assert server.calls == []


async def test_thoughts_are_not_part_of_the_answer_but_of_its_tokens(server: GeminiServer) -> None:
    server.chat = Script(thoughts=("hm, ", "two?"))
    reply = chat(server).generate(ASK)
    assert (reply.text, reply.output_tokens) == (ANSWER, 4)
    pieces = await collected(chat(server).stream(ASK))
    assert [piece.text for piece in pieces] == ["保固期", "為兩年 [1]。", ""]
    assert pieces[-1].output_tokens == 4


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(kind="blocked"), "blocked the question or the texts sent with it (SAFETY)"),
        (Script(pieces=(), finish_reason="MAX_TOKENS"), "used up its tokens before the first"),
        (Script(pieces=(), thoughts=("hm",), finish_reason="MAX_TOKENS"), "used up its tokens"),
        (Script(pieces=(), finish_reason="SAFETY"), "A content filter of Gemini"),
        (Script(pieces=(), finish_reason="RECITATION"), "A content filter of Gemini"),
        (Script(pieces=()), "gave an empty answer (it stopped with “stop”)"),
        (Script(pieces=(), finish_reason="OTHER"), "it stopped with “other”"),
    ],
)
async def test_an_answer_without_text_says_why(
    server: GeminiServer, script: Script, words: str
) -> None:
    server.chat = script
    with pytest.raises(ProviderError) as caught:
        chat(server).generate(ASK)
    assert words in str(caught.value)
    with pytest.raises(ProviderError) as caught:
        await collected(chat(server).stream(ASK))
    assert words in str(caught.value)


def test_no_candidate_at_all_is_an_empty_answer(server: GeminiServer) -> None:
    server.chat = Script(kind="no_candidates")
    with pytest.raises(ProviderError, match="gave an empty answer"):
        chat(server).generate(ASK)


async def test_an_answer_that_was_cut_short_keeps_its_text_and_reason(server: GeminiServer) -> None:
    server.chat = Script(finish_reason="MAX_TOKENS")
    assert chat(server).generate(ASK).finish_reason == "length"
    assert (await collected(chat(server).stream(ASK)))[-1].finish_reason == "length"


@pytest.mark.parametrize(("kind", "words"), [("html", "a web page"), ("text", "{oops")])
def test_a_body_that_is_no_answer_is_told(server: GeminiServer, kind: str, words: str) -> None:
    server.chat = Script(kind=kind)
    with pytest.raises(ProviderError, match="no answer of a model") as caught:
        chat(server).generate(ASK)
    assert words in caught.value.detail
    assert len(server.calls) == 1


async def test_a_web_page_in_place_of_a_stream_is_told(server: GeminiServer) -> None:
    server.chat = Script(kind="html")
    with pytest.raises(ProviderError, match="no answer of a model"):
        await collected(chat(server).stream(ASK))


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("cut", "no answer of a model"),
        ("ping", "no answer of a model"),
        ("drop", "The connection to Gemini"),
        ("quiet", "the answer broke off"),
        ("error", "The model is overloaded."),
    ],
)
async def test_a_stream_that_breaks_gives_its_pieces_and_then_an_error(
    server: GeminiServer, ending: str, words: str
) -> None:
    server.chat = Script(ending=ending)
    pieces: list[str] = []
    with pytest.raises(ProviderError) as caught:
        async for piece in chat(server).stream(ASK):
            pieces.append(piece.text)
    assert words in f"{caught.value} {caught.value.detail}"
    assert "".join(pieces) == ANSWER
    assert caught.value.__context__ is None
    assert len(server.calls) == 1


async def test_a_stream_that_hangs_times_out_and_is_closed(server: GeminiServer) -> None:
    server.chat = Script(ending="hang")
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"did not answer within 0\.4 s"):
        await collected(chat(server).stream(replace(ASK, timeout_s=0.4)))
    assert time.monotonic() - started < 4.0
    assert await asyncio.to_thread(server.gone.wait, 2.0)


async def test_cancelling_closes_the_connection_at_the_server(server: GeminiServer) -> None:
    server.chat = Script(ending="hang")
    task = asyncio.create_task(collected(chat(server).stream(ASK)))
    while not server.calls:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.gone.wait, 2.0)


async def test_leaving_a_stream_closes_the_connection_at_the_server(server: GeminiServer) -> None:
    server.chat = Script(ending="hang")
    stream = chat(server).stream(ASK)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert await asyncio.to_thread(server.gone.wait, 2.0)


async def test_breaking_out_of_a_loop_closes_the_connection_at_the_server(
    server: GeminiServer,
) -> None:
    server.chat = Script(ending="hang")
    async for _ in chat(server).stream(ASK):
        break
    assert await asyncio.to_thread(server.gone.wait, 2.0)


def test_streams_run_in_one_event_loop_after_another(server: GeminiServer) -> None:
    model = chat(server)
    for _ in range(3):
        assert len(asyncio.run(collected(model.stream(ASK)))) == 3


async def test_streams_run_side_by_side(server: GeminiServer) -> None:
    server.chat = Script(pause_s=0.1)
    model = chat(server)
    all_pieces = await asyncio.gather(*[collected(model.stream(ASK)) for _ in range(10)])
    assert {"".join(piece.text for piece in pieces) for pieces in all_pieces} == {ANSWER}
    assert server.n_active_most >= 5


async def test_failures_before_the_first_piece_are_tried_again(server: GeminiServer) -> None:
    busy = error(503, "UNAVAILABLE", "overloaded").body
    server.fail(Fault(status=503, body=busy, times=2))
    assert chat(server).generate(ASK).text == ANSWER
    server.fail(Fault(status=503, body=busy), Fault(cut="before"), Fault(status=429, body=busy))
    assert len(await collected(chat(server).stream(ASK))) == 3
    assert len(server.calls) == 3 + 4


async def test_a_request_s_timeout_bounds_all_its_tries(server: GeminiServer) -> None:
    asked = replace(ASK, timeout_s=0.4)
    for fault, kind in (
        (Fault(status=503, body=error(503, "UNAVAILABLE", "busy").body, times=99), ProviderError),
        (Fault(delay_s=20.0, times=99), ProviderTimeoutError),
    ):
        server.faults.clear()
        server.fail(fault)
        started = time.monotonic()
        with pytest.raises(kind):
            chat(server).generate(asked)
        with pytest.raises(kind):
            await collected(chat(server).stream(asked))
        assert time.monotonic() - started < 2.0


async def test_an_unknown_model_and_a_wrong_key_are_told(server: GeminiServer) -> None:
    body = error(404, "NOT_FOUND", "models/gemini-9 is not found").body
    server.fail(Fault(status=404, body=body, times=2))
    for _ in range(2):
        with pytest.raises(ProviderError, match=r"the model gemini-2\.5-flash \(HTTP 404\)"):
            await collected(chat(server).stream(ASK))
    server.key = "another"
    with pytest.raises(ProviderError, match="did not accept the key") as caught:
        await collected(chat(server).stream(ASK))
    assert KEY not in str(caught.value)
