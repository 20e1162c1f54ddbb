"""Gemini grounded answers: questions to File Search stores, or about files sent along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.file_search import GroundedAnswer, GroundedQuestion, Grounding
from rag.providers.gemini.attachments import AttachmentOptions, Attachments, attach_files
from rag.providers.gemini.client import GeminiCaller, http_options
from rag.providers.gemini.deadline_runner import await_within
from rag.providers.gemini.messages import read_reply
from rag.providers.gemini.resources import check_name, plain_metadata
from rag.providers.gemini.stream_reader import StreamReader
from rag.providers.remote.retry import Failure, await_with_retry
from rag.providers.remote.service import RemoteService, check_answer
from rag.stages.citing.grounding import GroundingSupport as AnswerSupport
from rag.stages.citing.grounding import resolve_groundings
from rag.stages.text.terms import is_han

if TYPE_CHECKING:
    from google.genai.types import (
        GenerateContentResponse,
        GroundingChunk,
        GroundingMetadata,
        GroundingSupport,
        HttpOptions,
        Segment,
    )


LEFT_NOTICES = {
    True: "{n_files} 个文件的副本未能从 Gemini 删除，最多会在那里保留 48 小时。",
    False: "Gemini keeps copies of {n_files} files for up to 48 hours: they could not be deleted.",
}


class AnswerCollector:
    """Collects an answer, whole or in pieces; the newest reason, counts and grounding hold."""

    def __init__(self, service: RemoteService, question: GroundedQuestion) -> None:
        self._service = service
        self._question = question
        self._parts: list[str] = []
        self._metadata: GroundingMetadata | None = None
        self._n_input: int | None = None
        self._n_output: int | None = None
        self.finish_reason = ""

    def take(self, response: GenerateContentResponse) -> GroundedAnswer:
        """Return the piece, with the tokens so far; raise ProviderError for a blocked question."""
        reply = read_reply(self._service, response)
        candidate = response.candidates[0] if response.candidates else None
        content = candidate.content if candidate else None
        # A thought is a part that supports may count, though no text of the answer.
        self._parts += [
            "" if part.thought else part.text or ""
            for part in (content.parts if content else ()) or ()
        ]
        if candidate is not None and candidate.grounding_metadata is not None:
            self._metadata = candidate.grounding_metadata
        self.finish_reason = reply.finish_reason or self.finish_reason
        if reply.input_tokens is not None:
            self._n_input = reply.input_tokens
        if reply.output_tokens is not None:
            self._n_output = reply.output_tokens
        return GroundedAnswer(
            reply.text, model=reply.model, input_tokens=self._n_input, output_tokens=self._n_output
        )

    def answer(self, left: Sequence[str] = ()) -> GroundedAnswer:
        """Return the whole; raise ProviderError when there is no text. ``left`` stayed there."""
        text = "".join(self._parts)
        check_answer(self._service, text, self.finish_reason)
        metadata = self._metadata
        chunks = [_chunk(chunk) for chunk in (metadata and metadata.grounding_chunks) or ()]
        supports = [
            _support(support, support.segment)
            for support in (metadata and metadata.grounding_supports) or ()
            if support.segment is not None
        ]
        found = resolve_groundings(self._parts, chunks, supports)
        # Places that are no documents have neither.
        groundings = tuple(one for one in found if one.source or one.chunk)
        if self._question.files:
            groundings = tuple(Grounding(file.name, "") for file in self._question.files)
        documents = tuple(dict.fromkeys(chunk.chunk for chunk in chunks if chunk.chunk))
        return GroundedAnswer(
            text,
            groundings,
            documents or (text,),
            model=f"gemini:{self._service.model}",
            finish_reason=self.finish_reason,
            input_tokens=self._n_input,
            output_tokens=self._n_output,
            notice=LEFT_NOTICES[is_han(self._question.text)].format(n_files=len(left))
            if left
            else "",
        )


def _chunk(found: GroundingChunk) -> Grounding:
    context: Any = found.retrieved_context
    if context is None:
        return Grounding("", "")
    document, store = context.document_name or "", context.file_search_store or ""
    return Grounding(
        source=context.title or document.rpartition("/")[2] or store,
        chunk=context.text or "",
        document=document,
        page=context.page_number or None,
        store=store,
        metadata=plain_metadata(context.custom_metadata or ()),
    )


def _support(found: GroundingSupport, segment: Segment) -> AnswerSupport:
    return AnswerSupport(
        tuple(found.grounding_chunk_indices or ()),
        # What is 0 is left out on the wire.
        start=segment.start_index or 0,
        end=segment.end_index or 0,
        part=segment.part_index or 0,
        text=segment.text or "",
    )


class GroundedGenerator:
    """Answers questions with one model; the service of ``calls`` carries its name."""

    def __init__(self, calls: GeminiCaller, sending: AttachmentOptions) -> None:
        self._calls = calls
        self._sending = sending

    async def whole(self, question: GroundedQuestion, deadline: Deadline) -> GroundedAnswer:
        """Return the whole answer."""
        heard = AnswerCollector(self._calls.service, question)
        async with attach_files(self._calls, question.files, deadline, self._sending) as sent:
            response = await self._calls.ask(
                lambda client, config: client.models.generate_content(
                    **self._request(question, sent, config["http_options"])
                ),
                deadline,
                gone=", ".join(question.stores),
            )
            heard.take(response)
        # Only now is it known what stayed at Gemini.
        return heard.answer(sent.left)

    async def pieces(
        self, question: GroundedQuestion, deadline: Deadline
    ) -> AsyncIterator[GroundedAnswer]:
        """Yield pieces as they come; the last one has no text and all the rest."""
        deadline.check()
        heard = AnswerCollector(self._calls.service, question)
        async with attach_files(self._calls, question.files, deadline, self._sending) as sent:
            opening = await_with_retry(
                self._calls.retry.within(deadline.remaining_s),
                lambda left_s: self._open(question, sent, left_s),
            )
            reading = await await_within(deadline, opening)
            try:
                while True:
                    wait_s = min(self._calls.timeout_s, deadline.remaining_s)
                    response = await await_within(deadline, reading.next(wait_s))
                    if response is None:
                        break
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
    ) -> StreamReader | Failure:
        client = await asyncio.to_thread(self._calls.endpoint.client)
        return await StreamReader.open(
            lambda: client.aio.models.generate_content_stream(
                **self._request(question, sent, http_options(left_s))
            ),
            left_s,
            partial(self._calls.failure, gone=", ".join(question.stores)),
        )

    def _request(
        self, question: GroundedQuestion, sent: Attachments, options: HttpOptions
    ) -> dict[str, Any]:
        # Heavy SDK, only where a model is called.
        from google.genai import types

        search: dict[str, Any] = {
            "file_search_store_names": [check_name(name) for name in question.stores],
            "top_k": question.top_k,
            "metadata_filter": question.metadata_filter or None,
        }
        tool = types.Tool(file_search=types.FileSearch(**search))
        parts = [*sent.parts, types.Part(text=question.text)]
        return {
            "model": self._calls.service.model,
            "contents": [types.Content(role="user", parts=parts)],
            "config": types.GenerateContentConfig(
                tools=[tool] if question.stores else None,
                # It logs a line for each request, though there is nothing to call.
                automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
                http_options=options,
            ),
        }
