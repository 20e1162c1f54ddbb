"""Gemini answers: questions to File Search stores, or about files sent along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.providers.gemini.attach import Attachments, Sending, attached
from rag.providers.gemini.calls import Calls
from rag.providers.gemini.client import call_errors, http_options
from rag.providers.gemini.grounding import Heard
from rag.providers.gemini.reading import Reading
from rag.providers.gemini.resources import check_name
from rag.providers.gemini.within import await_within
from rag.providers.remote.retry import Failure, await_with_retry

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import (
        Content,
        GenerateContentConfig,
        GenerateContentResponse,
        HttpOptions,
    )


class Answers:
    """Answers questions with one model; the service of ``calls`` carries its name."""

    def __init__(self, calls: Calls, sending: Sending) -> None:
        self._calls = calls
        self._sending = sending

    async def whole(self, question: GroundedQuestion, deadline: Deadline) -> GroundedAnswer:
        """Return the whole answer."""
        heard = Heard(self._calls.service, question)
        async with attached(self._calls, question.files, deadline, self._sending) as sent:

            async def act(client: AsyncClient, options: HttpOptions) -> GenerateContentResponse:
                return await client.models.generate_content(
                    model=self._calls.service.model,
                    contents=[_content(question, sent)],
                    config=_config(question, options),
                )

            response = await self._calls.ask(act, deadline, gone=", ".join(question.stores))
            heard.take(response)
        # Only now is it known what stayed at Gemini.
        return heard.answer(sent.left)

    async def pieces(
        self, question: GroundedQuestion, deadline: Deadline
    ) -> AsyncIterator[GroundedAnswer]:
        """Yield pieces as they come; the last one has no text and all the rest."""
        deadline.check()
        heard = Heard(self._calls.service, question)
        async with attached(self._calls, question.files, deadline, self._sending) as sent:
            opening = await_with_retry(
                self._calls.policy(deadline), lambda left_s: self._open(question, sent, left_s)
            )
            reading = await await_within(deadline, opening)
            try:
                while (response := await self._next(reading, deadline)) is not None:
                    piece = heard.take(response)
                    if piece.text:
                        yield piece
            finally:
                await reading.stop()
        if not heard.finish_reason:
            raise self._calls.service.unreachable("the answer broke off").error
        yield replace(heard.answer(sent.left), text="")

    async def _open(
        self, question: GroundedQuestion, sent: Attachments, left_s: float
    ) -> Reading | Failure:
        client = await asyncio.to_thread(self._calls.endpoint.client)
        async with AsyncExitStack() as undo:
            try:
                async with asyncio.timeout(left_s):
                    chunks = await client.aio.models.generate_content_stream(
                        model=self._calls.service.model,
                        contents=[_content(question, sent)],
                        config=_config(question, http_options(left_s)),
                    )
                    reading = Reading(chunks)
                    undo.push_async_callback(reading.stop)
                    # The SDK sends the request only now.
                    await reading.begin()
            except TimeoutError:
                return self._calls.service.timed_out(left_s)
            except call_errors() as error:
                return self._calls.failure(error, left_s, gone=", ".join(question.stores))
            undo.pop_all()
            return reading

    async def _next(self, reading: Reading, deadline: Deadline) -> GenerateContentResponse | None:
        wait_s = min(self._calls.timeout_s, deadline.remaining_s)
        try:
            async with asyncio.timeout(wait_s):
                return await await_within(deadline, reading.next())
        except TimeoutError:
            failure = self._calls.service.timed_out(wait_s)
        except call_errors() as error:
            failure = self._calls.failure(error, wait_s)
        # Raised out here, so that the SDK's exception is no part of it.
        raise failure.error


def _content(question: GroundedQuestion, sent: Attachments) -> Content:
    # Heavy SDK, only where a model is called.
    from google.genai.types import Content, Part

    return Content(role="user", parts=[*sent.parts, Part(text=question.text)])


def _config(question: GroundedQuestion, options: HttpOptions) -> GenerateContentConfig:
    # Heavy SDK, only where a model is called.
    from google.genai.types import (
        AutomaticFunctionCallingConfig,
        FileSearch,
        GenerateContentConfig,
        Tool,
    )

    search: dict[str, Any] = {
        "file_search_store_names": [check_name(name) for name in question.stores],
        "top_k": question.top_k,
        "metadata_filter": question.metadata_filter or None,
    }
    tools: Any = [Tool(file_search=FileSearch(**search))] if question.stores else None
    return GenerateContentConfig(
        tools=tools,
        # It logs a line for each request, though there is nothing to call.
        automatic_function_calling=AutomaticFunctionCallingConfig(disable=True),
        http_options=options,
    )
