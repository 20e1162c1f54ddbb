"""Chat model on any OpenAI-compatible server: whole answers and streams."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, ToolUse
from rag.providers.openai_compatible.client import DEFAULT_URL, OpenAIEndpoint, openai_failure
from rag.providers.openai_compatible.messages import (
    ChatDelta,
    ReasoningFilter,
    ToolCallCollector,
    read_delta,
    request_body,
    wire_message,
)
from rag.providers.remote.retry import Failure, RetryPolicy, await_with_retry, call_with_retry
from rag.providers.remote.service import check_answer

if TYPE_CHECKING:
    from openai import AsyncStream, OpenAIError

# What OpenAI's reasoning models refuse, and the name they want instead (None: leave it out).
DIALECT = {"max_tokens": "max_completion_tokens", "temperature": None}

# What a server answers with that knows no schema of an answer.
_REFUSED = (400, 404, 422, 501)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a model is called: ``body`` goes with each request, such as {"thinking": {"type":
    "disabled"}} for Doubao; ``is_thinking_first`` is for models whose prompt opens <think>;
    ``setting`` says address and key where these are not OpenAI's usual ones."""

    body: Mapping[str, Any] = field(default_factory=dict)
    has_stream_usage: bool = True
    is_thinking_first: bool = False
    setting: str = ""
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class OpenAICompatibleChatModel:
    """The ChatModel port on a remote ``/chat/completions``.

    ``timeout_s`` of a request bounds ``generate`` as a whole, tries included, and in ``stream``
    the wait for the first and each next piece. The options of a request go to the server as they
    are; thinking never gets into the text. A server that refuses the schema of an answer is asked
    without it, now and, where it answers then, from now on.
    """

    has_tools = True

    def __init__(
        self,
        model: str,
        base_url: str = "",
        api_key: str = "",
        *,
        options: ChatOptions | None = None,
    ) -> None:
        self.id = f"openai_compatible:{model}"
        self._model = model
        self._options = options or ChatOptions()
        self._takes_schema = True
        self._endpoint = OpenAIEndpoint.checked(base_url, api_key, self._options.setting)
        self._service = self._endpoint.service(model)
        # OpenAI itself takes the new name for all models; others know only the old one.
        is_openai = self._endpoint.base_url == DEFAULT_URL
        self._renamed: dict[str, str | None] = (
            {"max_tokens": DIALECT["max_tokens"]} if is_openai else {}
        )

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the whole answer; raise ProviderError or ProviderTimeoutError."""
        request, began = self._known_form(request), time.monotonic()
        try:
            answer = self._answer(request)
        except ProviderError as error:
            plain = _without_schema(request, error, began)
            answer = self._answer(plain)
            self._takes_schema = False
        try:
            body = json.loads(answer)
            piece = read_delta(body)
        except (ValueError, AttributeError):
            raise self._service.unreadable(answer).error from None
        asked = ToolCallCollector()
        asked.feed(piece.tool_calls)
        thoughts = ReasoningFilter(is_thinking=self._options.is_thinking_first)
        text = thoughts.feed(piece.text) + thoughts.end()
        calls = asked.calls()
        if not calls:
            check_answer(self._service, text, piece.finish_reason, refusal=piece.refusal)
        return self._reply(text, piece, calls)

    def _answer(self, request: ChatRequest) -> str:
        return call_with_retry(
            self._options.retry.within(request.timeout_s),
            lambda left_s: self._complete(request, left_s),
        )

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield pieces as they come; the last one carries finish_reason and token counts.

        Closing or cancelling the iteration closes the connection, so that the server stops.
        """
        request, began = self._known_form(request), time.monotonic()
        try:
            stream = await self._opened(request)
        except ProviderError as error:
            request = _without_schema(request, error, began)
            stream = await self._opened(request)
            self._takes_schema = False
        try:
            thoughts = ReasoningFilter(is_thinking=self._options.is_thinking_first)
            heard, asked = ChatDelta(), ToolCallCollector()
            is_answered = False
            while (piece := await self._next(stream, request.timeout_s)) is not None:
                text = thoughts.feed(piece.text)
                heard = _joined(heard, piece)
                asked.feed(piece.tool_calls)
                if text:
                    is_answered = is_answered or bool(text.strip())
                    yield ChatReply(text, model=self.id)
            rest, calls = thoughts.end(), asked.calls()
            if not heard.finish_reason:
                raise self._service.unreachable("the answer broke off").error
            if not is_answered and not calls:
                check_answer(self._service, rest, heard.finish_reason, refusal=heard.refusal)
            yield self._reply(rest, heard, calls)
        finally:
            await stream.close()

    async def _opened(self, request: ChatRequest) -> AsyncStream[Any]:
        return await await_with_retry(
            self._options.retry.within(request.timeout_s),
            lambda left_s: self._open(request, left_s),
        )

    def _known_form(self, request: ChatRequest) -> ChatRequest:
        return request if self._takes_schema else replace(request, schema=None)

    def _arguments(self, request: ChatRequest, timeout_s: float) -> dict[str, Any]:
        # All in extra_body: what one server knows, the SDK's own parameters do not.
        return {
            "model": self._model,
            "messages": [wire_message(message) for message in request.messages],
            "extra_body": request_body(request, self._options.body, self._renamed),
            "extra_headers": self._endpoint.headers(),
            "timeout": timeout_s,
        }

    def _complete(self, request: ChatRequest, left_s: float) -> str | Failure:
        # Heavy SDK, only where a model is called.
        import openai

        client, _ = self._endpoint.clients()
        try:
            answer = client.chat.completions.with_raw_response.create(
                **self._arguments(request, left_s)
            )
        except openai.OpenAIError as error:
            return self._failure(error, left_s)
        return str(answer.http_response.text)

    async def _open(self, request: ChatRequest, left_s: float) -> AsyncStream[Any] | Failure:
        # Heavy SDK, only where a model is called.
        import openai

        _, client = self._endpoint.clients()
        arguments = self._arguments(request, left_s)
        if self._options.has_stream_usage:
            arguments["stream_options"] = {"include_usage": True}
        try:
            async with asyncio.timeout(left_s):
                stream: AsyncStream[Any] = await client.chat.completions.create(
                    stream=True, **arguments
                )
        except TimeoutError:
            return self._service.timed_out(left_s)
        except openai.OpenAIError as error:
            return self._failure(error, left_s)
        kind = stream.response.headers.get("content-type", "").partition(";")[0]
        if kind in ("text/html", "application/json"):
            await stream.close()
            return self._service.unreadable(f"{kind} in place of a stream")
        return stream

    async def _next(self, stream: AsyncStream[Any], timeout_s: float) -> ChatDelta | None:
        # Heavy SDK, only where a model is called.
        import openai

        try:
            # Not left to the socket: comments that keep a stream alive would reset its clock.
            async with asyncio.timeout(timeout_s):
                chunk = await anext(stream)
            # What servers send in another shape is read all the same.
            return read_delta(chunk.to_dict(warnings=False))
        except StopAsyncIteration:
            return None
        except TimeoutError:
            failure = self._service.timed_out(timeout_s)
        except openai.OpenAIError as error:
            failure = openai_failure(self._service, error, timeout_s)
        except (ValueError, AttributeError) as error:
            failure = self._service.unreadable(error)
        # Raised out here, so that the SDK's exception is no part of it.
        raise failure.error

    def _failure(self, error: OpenAIError, timeout_s: float) -> Failure:
        failure = openai_failure(self._service, error, timeout_s)
        name = getattr(error, "param", None) or ""
        is_refused = getattr(error, "code", "") in ("unsupported_parameter", "unsupported_value")
        if is_refused and name in DIALECT and name not in self._renamed:
            # Which models of a server do so is in no list; it is learned from the first refusal.
            log.info("%s takes no %s; sending %s from now on.", self.id, name, DIALECT[name])
            self._renamed = {**self._renamed, name: DIALECT[name]}
            return Failure(failure.error, is_transient=True, retry_after_s=0.0)
        return failure

    def _reply(self, text: str, piece: ChatDelta, calls: tuple[ToolUse, ...]) -> ChatReply:
        return ChatReply(
            text,
            model=self.id,
            finish_reason=piece.finish_reason,
            input_tokens=piece.input_tokens,
            output_tokens=piece.output_tokens,
            tool_calls=calls,
        )


def _without_schema(request: ChatRequest, error: ProviderError, began: float) -> ChatRequest:
    """Return the request without its schema in the time that is left; raise what is no refusal."""
    if request.schema is None or error.params.get("status") not in _REFUSED:
        raise error
    left_s = max(0.01, request.timeout_s - (time.monotonic() - began))
    return replace(request, schema=None, timeout_s=left_s)


def _joined(heard: ChatDelta, piece: ChatDelta) -> ChatDelta:
    """Return all that was said so far besides the text, which has been passed on."""
    return ChatDelta(
        refusal=heard.refusal + piece.refusal,
        finish_reason=piece.finish_reason or heard.finish_reason,
        input_tokens=heard.input_tokens if piece.input_tokens is None else piece.input_tokens,
        output_tokens=heard.output_tokens if piece.output_tokens is None else piece.output_tokens,
    )
