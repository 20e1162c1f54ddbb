"""Grounding metadata of Gemini's responses, whole or streamed, as a grounded answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rag.core.file_search import GroundedAnswer, GroundedQuestion, Grounding
from rag.providers.gemini.reply import read_reply
from rag.providers.gemini.resources import plain_metadata
from rag.providers.remote.answers import check_answer
from rag.providers.remote.service import RemoteService
from rag.stages.citing.grounding import GroundingSupport as AnswerSupport
from rag.stages.citing.grounding import resolve_groundings
from rag.stages.text.terms import is_han

if TYPE_CHECKING:
    from google.genai.types import (
        GenerateContentResponse,
        GroundingChunk,
        GroundingMetadata,
        GroundingSupport,
    )

LEFT_NOTICES = {
    True: "{n_files} 个文件的副本未能从 Gemini 删除，最多会在那里保留 48 小时。",
    False: "Gemini keeps copies of {n_files} files for up to 48 hours: they could not be deleted.",
}


class Heard:
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
        chunks = _chunks(self._metadata)
        found = resolve_groundings(self._parts, chunks, _supports(self._metadata))
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
            notice=self._notice(len(left)) if left else "",
        )

    def _notice(self, n_files: int) -> str:
        return LEFT_NOTICES[is_han(self._question.text)].format(n_files=n_files)


def _chunks(metadata: GroundingMetadata | None) -> list[Grounding]:
    return [_chunk(chunk) for chunk in (metadata.grounding_chunks if metadata else ()) or ()]


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


def _supports(metadata: GroundingMetadata | None) -> list[AnswerSupport]:
    found = (metadata.grounding_supports if metadata else ()) or ()
    return [_support(support) for support in found if support.segment is not None]


def _support(found: GroundingSupport) -> AnswerSupport:
    segment = found.segment
    assert segment is not None
    return AnswerSupport(
        tuple(found.grounding_chunk_indices or ()),
        # What is 0 is left out on the wire.
        start=segment.start_index or 0,
        end=segment.end_index or 0,
        part=segment.part_index or 0,
        text=segment.text or "",
    )
