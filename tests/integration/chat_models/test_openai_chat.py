"""Chat over the openai SDK against a loopback server that misbehaves in every way seen."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
)
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Message
from rag.providers.openai_compatible.chat import ChatOptions, OpenAICompatibleChatModel
from rag.providers.quoting import QuotingChatModel
from rag.providers.remote.retry import RetryPolicy
from rag.services.wiring import registry as wiring
from tests.contract_chat import ChatModelContract, collected
from tests.fakes.loopback import Fault
from tests.fakes.openai_server import OpenAIServer, Script

KEY = "sk-secret-0123456789abcdef"
FAST = RetryPolicy(max_attempts=4, first_wait_s=0.005, max_wait_s=0.01, deadline_s=5.0)
ASK = ChatRequest([Message("user", "How long is the warranty?")], timeout_s=5.0)
ANSWER = "The warranty lasts two years [1]."


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def chat(server: OpenAIServer, *, key: str = "", **options: Any) -> OpenAICompatibleChatModel:
    chosen = ChatOptions(**{"retry": FAST, **options})
    return OpenAICompatibleChatModel("qwen3", server.url, key, options=chosen)


class TestContract(ChatModelContract):
    @pytest.fixture
    def chat_model(self, server: OpenAIServer) -> ChatModel:
        return chat(server, key=KEY)


SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}


def test_the_schema_of_an_answer_is_sent_until_a_server_refuses_it(server: OpenAIServer) -> None:
    asked, model = replace(ASK, schema=SCHEMA), chat(server)
    assert model.generate(asked).text
    sent = server.calls[0].json["response_format"]["json_schema"]
    assert (sent["schema"], sent["strict"]) == (SCHEMA, True)
    server.faults = [Fault(status=400, body={"error": {"message": "no response_format"}})]
    assert model.generate(asked).text
    assert asyncio.run(collected(model.stream(asked)))[-1].finish_reason
    forms = ["response_format" in call.json for call in server.calls]
    assert forms == [True, True, False, False]


def test_the_setting_sends_the_sentences_that_may_be_quoted(
    server: OpenAIServer, settings: Any, fresh_wiring: None
) -> None:
    for is_on in (False, True):
        known = {"OPENAI_BASE_URL": server.url, "QUOTE_SCHEMA": is_on}
        settings.RAG = {**settings.RAG, **known}
        made: Any = wiring.chat_model(f"openai_compatible:m{is_on}")
        made.model.generate(replace(ASK, passages=[("doc_01", "It lasts two years.")]))
        assert ("It lasts two years." in str(server.calls[-1].json)) == is_on
        extractive: Any = wiring.chat_model("extractive:sentences")
        assert not isinstance(extractive.model, QuotingChatModel)


def test_a_stream_is_begun_again_without_a_schema_that_is_refused(server: OpenAIServer) -> None:
    server.faults = [Fault(status=422, body={"error": {"message": "unknown"}})]
    asked = replace(ASK, schema={"type": "object"})
    assert asyncio.run(collected(chat(server).stream(asked)))[-1].finish_reason
    assert ["response_format" in call.json for call in server.calls] == [True, False]


def test_another_refusal_than_of_the_schema_is_told_and_forgotten(server: OpenAIServer) -> None:
    server.faults = [Fault(status=400, times=2, body={"error": {"message": "too long"}})]
    asked, model = replace(ASK, schema=SCHEMA), chat(server)
    with pytest.raises(ProviderError):
        model.generate(asked)
    model.generate(asked)
    assert "response_format" in server.calls[-1].json


def test_an_answer_has_text_reason_and_tokens(server: OpenAIServer) -> None:
    reply = chat(server).generate(ASK)
    assert reply == ChatReply(ANSWER, "openai_compatible:qwen3", "stop", 11, 3)
    sent = server.calls[0].json
    assert sent["messages"] == [{"role": "user", "content": "How long is the warranty?"}]
    assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("qwen3", 0.2, 2048)
    assert "stream" not in sent


async def test_a_stream_gives_pieces_then_reason_and_tokens(server: OpenAIServer) -> None:
    pieces = await collected(chat(server).stream(ASK))
    assert [piece.text for piece in pieces] == ["The warranty ", "lasts ", "two years [1].", ""]
    assert pieces[-1] == ChatReply("", "openai_compatible:qwen3", "stop", 11, 3)
    assert server.calls[0].json["stream_options"] == {"include_usage": True}


async def test_pieces_come_as_they_are_made(server: OpenAIServer) -> None:
    server.chat = Script(pause_s=0.15)
    stream = chat(server).stream(ASK)
    await anext(stream)
    first_at = time.monotonic()
    await collected(stream)
    assert time.monotonic() - first_at >= 0.2


async def test_tokens_are_unknown_when_the_server_does_not_say(server: OpenAIServer) -> None:
    server.chat = Script(has_usage=False)
    assert chat(server).generate(ASK).output_tokens is None
    assert (await collected(chat(server).stream(ASK)))[-1].input_tokens is None
    model = chat(server, has_stream_usage=False)
    await collected(model.stream(ASK))
    assert "stream_options" not in server.calls[-1].json


def test_options_of_model_and_request_go_over_the_wire(server: OpenAIServer) -> None:
    options = {"reasoning_effort": "low", "extra_body": {"enable_thinking": False}}
    model = chat(server, body={"thinking": {"type": "disabled"}})
    model.generate(replace(ASK, options=options))
    sent = server.calls[0].json
    assert sent["reasoning_effort"] == "low"
    assert sent["thinking"] == {"type": "disabled"}
    assert sent["enable_thinking"] is False
    assert "extra_body" not in sent


def test_options_cannot_change_the_messages(server: OpenAIServer) -> None:
    with pytest.raises(InvalidInputError, match="“messages” cannot be set"):
        chat(server).generate(replace(ASK, options={"messages": []}))
    assert server.calls == []


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_not_part_of_the_answer(server: OpenAIServer, field: str) -> None:
    server.chat = Script(reasoning=("hm, ", "two?"), reasoning_field=field)
    assert chat(server).generate(ASK).text == ANSWER
    pieces = await collected(chat(server).stream(ASK))
    assert "".join(piece.text for piece in pieces) == ANSWER
    assert pieces[-1].output_tokens == 5


async def test_thinking_inside_the_text_is_taken_out(server: OpenAIServer) -> None:
    server.chat = Script(pieces=("<thi", "nk>hm, two?</th", "ink>\n\nTwo ", "years [1]."))
    assert chat(server).generate(ASK).text == "Two years [1]."
    pieces = await collected(chat(server).stream(ASK))
    assert [piece.text for piece in pieces] == ["Two ", "years [1].", ""]


def test_a_model_may_start_in_thinking(server: OpenAIServer) -> None:
    server.chat = Script(pieces=("hm, two?</think>", "Two years [1]."))
    assert chat(server, is_thinking_first=True).generate(ASK).text == "Two years [1]."


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(pieces=()), "gave an empty answer (it stopped with “stop”)"),
        (Script(pieces=(" \n",)), "gave an empty answer"),
        (Script(pieces=("<think>hm",), finish_reason="length"), "used up its tokens"),
        (Script(pieces=(), reasoning=("hm",), finish_reason="length"), "used up its tokens"),
        (Script(pieces=(), finish_reason="content_filter"), "A content filter of 127.0.0.1"),
        (Script(pieces=(), refusal="I cannot help."), "refused to answer: I cannot help."),
        (Script(pieces=(), finish_reason="tool_calls"), "it stopped with “tool_calls”"),
    ],
)
async def test_an_answer_without_text_says_why(
    server: OpenAIServer, script: Script, words: str
) -> None:
    server.chat = script
    with pytest.raises(ProviderError) as caught:
        chat(server).generate(ASK)
    assert words in str(caught.value)
    with pytest.raises(ProviderError) as caught:
        await collected(chat(server).stream(ASK))
    assert words in str(caught.value)


async def test_an_answer_that_was_cut_short_keeps_its_text_and_reason(server: OpenAIServer) -> None:
    server.chat = Script(finish_reason="length")
    assert chat(server).generate(ASK).finish_reason == "length"
    assert (await collected(chat(server).stream(ASK)))[-1].finish_reason == "length"


@pytest.mark.parametrize(
    "body", [{}, [], "text", {"choices": []}, {"choices": ["x"]}, b"{", b"", {"choices": 5}]
)
def test_a_body_that_is_no_answer_is_an_error(server: OpenAIServer, body: Any) -> None:
    server.chat = Script(body=body)
    with pytest.raises(ProviderError):
        chat(server).generate(ASK)
    assert len(server.calls) == 1


async def test_a_web_page_with_status_200_is_told(server: OpenAIServer) -> None:
    server.chat = Script(html=True)
    with pytest.raises(ProviderError, match="no answer of a model"):
        chat(server).generate(ASK)
    with pytest.raises(ProviderError) as caught:
        await collected(chat(server).stream(ASK))
    assert "text/html in place of a stream" in caught.value.detail


async def test_json_in_place_of_a_stream_is_told(server: OpenAIServer) -> None:
    server.chat = Script(body={"error": "streaming is off"})
    with pytest.raises(ProviderError, match="no answer of a model") as caught:
        await collected(chat(server).stream(ASK))
    assert "application/json in place of a stream" in caught.value.detail


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("cut", "The connection to 127.0.0.1"),
        ("quiet", "the answer broke off"),
        ("error", "the stream reported “the GPU fell over”"),
        ("garbage", "no answer of a model"),
    ],
)
async def test_a_stream_that_breaks_gives_its_pieces_and_then_an_error(
    server: OpenAIServer, ending: str, words: str
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


async def test_a_stream_that_hangs_times_out_and_is_closed(server: OpenAIServer) -> None:
    server.chat = Script(ending="hang")
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"did not answer within 0\.3 s"):
        await collected(chat(server).stream(replace(ASK, timeout_s=0.3)))
    assert time.monotonic() - started < 3.0
    assert await asyncio.to_thread(server.gone.wait, 2.0)


async def test_comments_do_not_keep_a_dead_stream_alive(server: OpenAIServer) -> None:
    server.chat = Script(pings=500)
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError):
        await collected(chat(server).stream(replace(ASK, timeout_s=0.3)))
    assert time.monotonic() - started < 5.0


async def test_comments_in_a_live_stream_do_no_harm(server: OpenAIServer) -> None:
    server.chat = Script(pings=3)
    assert (await collected(chat(server).stream(ASK)))[-1].finish_reason == "stop"


async def test_a_long_stream_may_take_longer_than_one_timeout(server: OpenAIServer) -> None:
    server.chat = Script(pieces=("a ",) * 6, pause_s=0.15)
    pieces = await collected(chat(server).stream(replace(ASK, timeout_s=0.6)))
    assert len(pieces) == 7


async def test_cancelling_closes_the_connection_at_the_server(server: OpenAIServer) -> None:
    server.chat = Script(ending="hang")
    task = asyncio.create_task(collected(chat(server).stream(ASK)))
    while not server.calls:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.gone.wait, 2.0)


async def test_leaving_a_stream_closes_the_connection_at_the_server(server: OpenAIServer) -> None:
    server.chat = Script(ending="hang")
    stream = chat(server).stream(ASK)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert await asyncio.to_thread(server.gone.wait, 2.0)


def test_streams_run_in_one_event_loop_after_another(server: OpenAIServer) -> None:
    model = chat(server)
    for _ in range(3):
        assert len(asyncio.run(collected(model.stream(ASK)))) == 4


async def test_streams_run_side_by_side(server: OpenAIServer) -> None:
    server.chat = Script(pause_s=0.05)
    model = chat(server)
    all_pieces = await asyncio.gather(*[collected(model.stream(ASK)) for _ in range(10)])
    assert {"".join(piece.text for piece in pieces) for pieces in all_pieces} == {ANSWER}
    assert server.n_active_most >= 5


async def test_failures_before_the_first_piece_are_tried_again(server: OpenAIServer) -> None:
    server.fail(Fault(status=500, times=2))
    assert chat(server).generate(ASK).text == ANSWER
    server.fail(Fault(status=503), Fault(cut="before"), Fault(status=429))
    assert len(await collected(chat(server).stream(ASK))) == 4
    assert len(server.calls) == 3 + 4


async def test_a_request_s_timeout_bounds_all_its_tries(server: OpenAIServer) -> None:
    asked = replace(ASK, timeout_s=0.3)
    for fault, kind in (
        (Fault(status=503, times=999), ProviderError),
        (Fault(delay_s=20.0, times=999), ProviderTimeoutError),
    ):
        server.faults.clear()
        server.fail(fault)
        policy = RetryPolicy(max_attempts=99, first_wait_s=0.02, max_wait_s=0.05)
        started = time.monotonic()
        with pytest.raises(kind):
            chat(server, retry=policy).generate(asked)
        with pytest.raises(kind):
            await collected(chat(server, retry=policy).stream(asked))
        assert time.monotonic() - started < 3.0


async def test_what_reasoning_models_refuse_is_learned_once(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rag.providers.openai_compatible.chat")
    server.new_dialect = True
    model = chat(server)
    assert model.generate(ASK).text == ANSWER
    assert [call.json.get("max_completion_tokens") for call in server.calls] == [None, 2048, 2048]
    assert "temperature" not in server.calls[-1].json
    assert "takes no temperature" in caplog.text
    await collected(model.stream(ASK))
    assert len(server.calls) == 4


async def test_a_wrong_key_is_told_and_never_shown(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.key = "another"
    model = chat(server, key=KEY)
    with pytest.raises(ProviderError, match="did not accept the key") as caught:
        model.generate(ASK)
    with pytest.raises(ProviderError, match="did not accept the key") as caught_too:
        await collected(model.stream(ASK))
    for error in (caught.value, caught_too.value):
        assert "Check RAG_OPENAI_API_KEY." in str(error)
        assert KEY not in str(error) + repr(error.as_dict())
        assert error.__context__ is None
    assert KEY not in caplog.text + repr(vars(model))
    assert len(server.calls) == 2


def test_an_unknown_model_is_told(server: OpenAIServer) -> None:
    body = {"error": {"message": "model 'qwen3' not found, try pulling it first"}}
    server.fail(Fault(status=404, body=body))
    with pytest.raises(ProviderError) as caught:
        chat(server).generate(ASK)
    assert "does not know the address or the model qwen3 (HTTP 404)" in str(caught.value)
    assert "try pulling it first" in caught.value.detail
    assert "try pulling it first" not in str(caught.value.as_dict())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"detail": "no GPU"}, "no GPU"),
        ({"message": "flat"}, "flat"),
        ({"error": "just text"}, "just text"),
        (b"plain", "plain"),
        (b"", "no reason given"),
    ],
)
def test_the_server_s_reason_is_found_in_any_form(
    server: OpenAIServer, body: Any, words: str
) -> None:
    server.fail(Fault(status=422, body=body))
    with pytest.raises(ProviderError) as caught:
        chat(server).generate(ASK)
    assert caught.value.detail == words


def test_neither_key_nor_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="RAG_OPENAI_API_KEY"):
        OpenAICompatibleChatModel("gpt-5-mini")
