"""Questions to files sent along. In: files on disk. Out: an answer from what stands in them.

With a key they go to Gemini. Without one their texts are cut and ranked in memory and answered by
the configured chat model; nothing of them is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from asgiref.sync import sync_to_async

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.file_search import GroundedAnswer, GroundedQuestion, Grounding, InlineFile
from rag.providers.postgres.connections import release_db
from rag.services.answer_passages import CitedAnswer, answer_passages, stream_passages
from rag.services.budget_hold import held_answer
from rag.services.file_passages import file_context
from rag.services.file_search import gemini_file_search
from rag.services.held_stream import held_stream
from rag.services.record_usage import record_usage
from rag.services.usage_chat import chat_for
from rag.stages.context import Context

KIND = models.UsageRecord.Kind.MULTIMODAL


def answer_files(
    *, question: str, files: Sequence[InlineFile], scope: Scope, deadline: Deadline
) -> GroundedAnswer:
    """Return the whole answer; its tokens are recorded.

    Raises DocumentError or InvalidInputError for a file that cannot be read, ConfigurationError
    for an image without a key, and what the model raises.
    """
    release_db()
    if conf().gemini_api_key:
        asked = GroundedQuestion(question, files=files)
        with held_answer(scope=scope, deadline=deadline, is_remote=True) as hold:
            answer = gemini_file_search().answer(asked, deadline=deadline)
        record_usage(answer=answer, kind=KIND, scope=scope, hold=hold)
    else:
        chat = chat_for(scope=scope, kind=KIND)
        context = file_context(question=question, files=files, deadline=deadline)
        cited = answer_passages(question=question, context=context, chat=chat, deadline=deadline)
        answer = _grounded(cited, context)
    return answer


async def stream_files(
    *, question: str, files: Sequence[InlineFile], scope: Scope, deadline: Deadline
) -> AsyncIterator[GroundedAnswer]:
    """Yield the answer as it comes; leaving the iteration stops the model."""
    if conf().gemini_api_key:
        backend = await sync_to_async(gemini_file_search)()
        pieces = backend.stream(GroundedQuestion(question, files=files), deadline=deadline)
        pieces = held_stream(pieces=pieces, kind=KIND, scope=scope, deadline=deadline)
    else:
        pieces = _stream_texts(question, files, scope, deadline)
    async with aclosing(pieces):  # type: ignore[type-var]
        async for piece in pieces:
            yield piece
    await sync_to_async(release_db)()


async def _stream_texts(
    question: str, files: Sequence[InlineFile], scope: Scope, deadline: Deadline
) -> AsyncIterator[GroundedAnswer]:
    chat = await sync_to_async(chat_for)(scope=scope, kind=KIND)
    prepare = sync_to_async(file_context)
    context = await prepare(question=question, files=files, deadline=deadline)
    pieces = stream_passages(question=question, context=context, chat=chat, deadline=deadline)
    async with aclosing(pieces):  # type: ignore[type-var]
        async for piece in pieces:
            yield _grounded(piece, context) if piece.is_last else GroundedAnswer(piece.text)


def _grounded(cited: CitedAnswer, context: Context) -> GroundedAnswer:
    names = {passage.doc_id: passage.hit.file_name for passage in context.passages}
    groundings = [
        Grounding(
            names[one.doc_id], one.found or one.quote, page=one.page, start=start, end=end,
            verdict=one.verdict,
        )
        for one, (start, end) in zip(cited.citations, cited.spans, strict=True)
        if one.doc_id in names and one.verdict != "unknown"
    ]  # fmt: skip
    documents = tuple(dict.fromkeys(one.chunk for one in groundings))
    return replace(cited.as_grounded(), groundings=tuple(groundings), documents=documents)
