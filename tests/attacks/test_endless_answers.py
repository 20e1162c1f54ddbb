"""Models and services that never end: their answers are cut, and kept as cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from asgiref.sync import async_to_sync

from rag import models
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message
from rag.providers.openai_compatible.chat import ChatOptions, OpenAICompatibleChatModel
from rag.providers.remote.retry import RetryPolicy
from rag.services.usage.metering import MAX_ANSWER_CHARS, MeteredChat
from tests.fakes.openai_server import OpenAIServer, Script

ASKED = ChatRequest((Message("user", "How long?"),))
pytestmark = pytest.mark.django_db(transaction=True)


class Endless:
    id = "stub:endless"

    def __init__(self) -> None:
        self.n_given, self.is_closed = 0, False

    def generate(self, request: ChatRequest) -> ChatReply:
        return ChatReply("word " * MAX_ANSWER_CHARS, model=self.id, finish_reason="stop")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        try:
            while True:
                self.n_given += 1
                yield ChatReply("word " * 1000, model=self.id)
        finally:
            self.is_closed = True


@async_to_sync
async def heard(model: MeteredChat | OpenAICompatibleChatModel) -> list[ChatReply]:
    return [piece async for piece in model.stream(ASKED)]


def test_a_stream_without_an_end_is_cut_and_closed_and_paid() -> None:
    model = Endless()
    pieces = heard(MeteredChat(model))
    assert sum(len(piece.text) for piece in pieces) == MAX_ANSWER_CHARS
    assert pieces[-1].finish_reason == "length"
    assert model.is_closed and model.n_given == MAX_ANSWER_CHARS // 5000 + 1
    (used,) = models.UsageRecord.objects.all()
    assert (used.outcome, used.is_estimated) == ("ok", True)
    assert used.output_tokens > MAX_ANSWER_CHARS / 10


def test_a_whole_answer_is_cut_too() -> None:
    reply = MeteredChat(Endless()).generate(ASKED)
    assert (len(reply.text), reply.finish_reason) == (MAX_ANSWER_CHARS, "length")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def test_a_response_that_would_fill_the_memory_is_given_up(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.providers.remote.http.MAX_RESPONSE_BYTES", 1024**2)
    once = ChatOptions(retry=RetryPolicy(max_attempts=1))
    model = OpenAICompatibleChatModel("m", server.url, options=once)
    # Thoughts are no text: they never reach the limit of an answer.
    server.chat = Script(reasoning=("thinking " * 10_000,) * 30)
    with pytest.raises(ProviderError, check=lambda e: "more than 1 MB came" in e.detail):
        model.generate(ASKED)
    with pytest.raises(ProviderError, check=lambda e: "more than 1 MB came" in e.detail):
        heard(model)
