"""What every chat model keeps to. Subclass it, give it a model, and the suite holds it to that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Message

PASSAGES = (
    ("warranty.pdf", "The warranty lasts two years. It covers parts and labour."),
    ("保固說明.md", "保固期為兩年。人為損壞不在保固範圍內。"),
)


class ChatModelContract:
    """The ChatModel port. The fixture ``chat_model`` answers the same question the same way."""

    @pytest.fixture
    def chat_model(self) -> ChatModel:
        raise NotImplementedError

    @pytest.fixture
    def chat_request(self) -> ChatRequest:
        """A question that the passages answer."""
        return ChatRequest(
            [
                Message("system", "Answer from the passages, with their numbers."),
                Message("user", "How long is the warranty?"),
            ],
            question="How long is the warranty?",
            passages=PASSAGES,
            timeout_s=20.0,
        )

    def test_its_id_is_provider_and_model(self, chat_model: ChatModel) -> None:
        provider, colon, model = chat_model.id.partition(":")
        assert provider and colon and model

    def test_it_says_whether_it_takes_tools(self, chat_model: ChatModel) -> None:
        assert chat_model.has_tools in (True, False)

    def test_it_answers_with_text_and_a_reason(
        self, chat_model: ChatModel, chat_request: ChatRequest
    ) -> None:
        reply = chat_model.generate(chat_request)
        assert reply.text.strip()
        assert reply.model == chat_model.id
        assert reply.finish_reason == "stop"

    async def test_its_pieces_make_up_the_whole_answer(
        self, chat_model: ChatModel, chat_request: ChatRequest
    ) -> None:
        pieces = await collected(chat_model.stream(chat_request))
        whole = chat_model.generate(chat_request)
        assert "".join(piece.text for piece in pieces) == whole.text
        assert {piece.model for piece in pieces} == {chat_model.id}

    async def test_only_the_last_piece_carries_reason_and_tokens(
        self, chat_model: ChatModel, chat_request: ChatRequest
    ) -> None:
        *earlier, last = await collected(chat_model.stream(chat_request))
        whole = chat_model.generate(chat_request)
        assert all(piece.finish_reason == "" for piece in earlier)
        assert all(piece.output_tokens is None for piece in earlier)
        assert all(piece.text for piece in earlier)
        assert last.finish_reason == whole.finish_reason
        assert (last.input_tokens, last.output_tokens) == (whole.input_tokens, whole.output_tokens)

    async def test_a_stream_may_be_left_early(
        self, chat_model: ChatModel, chat_request: ChatRequest
    ) -> None:
        stream = chat_model.stream(chat_request)
        first = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert first.text
        assert await collected(chat_model.stream(chat_request))

    def test_it_answers_several_threads_at_once(
        self, chat_model: ChatModel, chat_request: ChatRequest
    ) -> None:
        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(chat_model.generate, [chat_request] * 8))
        assert {reply.text for reply in replies} == {chat_model.generate(chat_request).text}

    def test_it_shows_no_secret(self, chat_model: ChatModel) -> None:
        assert "key" not in repr(chat_model).lower()


async def collected(stream: AsyncIterator[ChatReply]) -> list[ChatReply]:
    """Return all pieces of a stream."""
    return [piece async for piece in stream]
