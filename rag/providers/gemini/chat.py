"""Gemini chat model: whole answers and streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.providers.gemini.client import GeminiEndpoint, failure_of, sdk_errors
from rag.providers.gemini.messages import contents_of, generation_config, read_reply
from rag.providers.gemini.stream_reader import StreamReader
from rag.providers.remote.retry import Failure, RetryPolicy, await_with_retry, call_with_retry
from rag.providers.remote.service import check_answer

if TYPE_CHECKING:
    from google.genai.types import GenerateContentResponse


@dataclass(frozen=True, slots=True)
class GeminiChatOptions:
    """How a model is called; ``config`` goes with each request, such as {"thinking_budget": 0}."""

    config: Mapping[str, Any] = field(default_factory=dict)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class GeminiChatModel:
    """The ChatModel port on Gemini.

    ``timeout_s`` of a request bounds ``generate`` as a whole, tries included, and in ``stream``
    the wait for the first and each next piece. Thoughts never get into the text; their tokens
    count as output.
    """

    has_tools = True

    def __init__(
        self, model: str, endpoint: GeminiEndpoint, *, options: GeminiChatOptions | None = None
    ) -> None:
        self.id = f"gemini:{model}"
        self._model = model
        self._endpoint = endpoint
        self._service = endpoint.service(model)
        self._options = options or GeminiChatOptions()

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the whole answer; raise ProviderError or ProviderTimeoutError."""
        answer = call_with_retry(
            self._options.retry.within(request.timeout_s),
            lambda left_s: self._complete(request, left_s),
        )
        reply = read_reply(self._service, answer)
        if not reply.tool_calls:
            check_answer(self._service, reply.text, reply.finish_reason)
        return reply

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield pieces as they come; the last one carries finish_reason and token counts.

        Closing or cancelling the iteration closes the connection, so that the server stops.
        """
        reading = await await_with_retry(
            self._options.retry.within(request.timeout_s),
            lambda left_s: self._open(request, left_s),
        )
        try:
            heard = ChatReply("", model=self.id)
            is_answered = False
            while (chunk := await reading.next(request.timeout_s)) is not None:
                piece = read_reply(self._service, chunk)
                heard = _joined(heard, piece)
                if piece.text:
                    is_answered = is_answered or bool(piece.text.strip())
                    yield ChatReply(piece.text, model=self.id)
            if not heard.finish_reason:
                raise self._service.unreachable("the answer broke off").error
            if not is_answered and not heard.tool_calls:
                check_answer(self._service, "", heard.finish_reason)
            yield heard
        finally:
            await reading.stop()

    def _arguments(self, request: ChatRequest, timeout_s: float) -> dict[str, Any]:
        return {
            "model": self._model,
            "contents": contents_of(request.messages),
            "config": generation_config(request, self._options.config, timeout_s),
        }

    def _complete(self, request: ChatRequest, left_s: float) -> GenerateContentResponse | Failure:
        arguments = self._arguments(request, left_s)
        try:
            return self._endpoint.client().models.generate_content(**arguments)
        except sdk_errors() as error:
            return failure_of(self._service, error, left_s)

    async def _open(self, request: ChatRequest, left_s: float) -> StreamReader | Failure:
        arguments = self._arguments(request, left_s)
        models = self._endpoint.client().aio.models
        return await StreamReader.open(
            lambda: models.generate_content_stream(**arguments),
            left_s,
            partial(failure_of, self._service),
        )


def _joined(heard: ChatReply, piece: ChatReply) -> ChatReply:
    """Return what the last piece will carry: the newest reason and counts, no text."""
    known = {
        name: value
        for name in ("finish_reason", "input_tokens", "output_tokens")
        if (value := getattr(piece, name)) not in ("", None)
    }
    return replace(heard, **known, tool_calls=heard.tool_calls + piece.tool_calls)
