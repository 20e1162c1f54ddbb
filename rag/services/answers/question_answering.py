"""Question answering over stores: retrieval, prompt, chat model, citations; whole or streamed.

Stores at Gemini are asked there: of the settings, metadata, content types and top_k are passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import GroundedQuestion
from rag.core.ports import ChatModel
from rag.core.types import Answer, ChatReply, Citation, RetrievalSettings, SearchResult
from rag.services.answers.file_search import prepare_stores
from rag.services.answers.gemini_answer import metadata_filter_text
from rag.services.answers.pipeline import AnswerJob, run_job, store_job, stream_job
from rag.services.search import retrieve, validated_query
from rag.services.wiring.registry import chat_for
from rag.stages.citing.verify import Marks

AnswerPart = ChatReply | Citation | Answer


def ask(
    *,
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> Answer:
    """Return the answer of ``model`` (``provider:model``; empty: the configured one, or Gemini)."""
    return run_job(partial(_prepare, question, scope, stores, settings, model, "numbered")).answer()


async def stream_ask(
    *,
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> AsyncIterator[AnswerPart]:
    """Yield text as it comes (joined, it is the answer's), citations, and the whole at the end.

    Gemini names sources at its end: its text has no marks, they would come too late.
    """
    prepare = partial(_prepare, question, scope, stores, settings, model, "spans")
    async with aclosing(stream_job(prepare)) as parts:
        async for job, part in parts:
            if part is None:
                yield job.answer()
            elif isinstance(part, Citation):
                yield part
            elif isinstance(job.last, ChatReply):
                yield replace(job.last, text=part)
            else:
                yield ChatReply(part, model=job.last.model)


def answer_hits(
    *, result: SearchResult, settings: RetrievalSettings, store: models.Store, chat: ChatModel
) -> Answer:
    """Return the answer of a model from what a search found; nothing is logged."""
    job = partial(
        store_job,
        result=result,
        settings=settings,
        stores=[store],
        chat=chat,
        scope=Scope.operator(),
        is_logged=False,
    )
    return run_job(job).answer()


def _prepare(
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None,
    model: str,
    remote_marks: Marks,
) -> AnswerJob:
    if any(store.is_remote for store in stores):
        chosen = settings or stores[0].retrieval_settings
        asked = GroundedQuestion(
            validated_query(query=question),
            [store.resource_name for store in stores],
            top_k=chosen.top_k,
            model=model,
            metadata_filter=metadata_filter_text(
                metadata=dict(chosen.metadata), content_types=chosen.content_types
            ),
        )
        return prepare_stores(asked, scope, Deadline(conf().timeout_s), remote_marks)
    chat = chat_for(scope=scope, kind="ask", model=model, stores=stores)
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    settings = settings or stores[0].retrieval_settings
    result = retrieve(
        query=question, scope=scope, stores=stores, settings=settings, purpose="answer"
    )
    return store_job(result=result, settings=settings, stores=stores, chat=chat, scope=scope)
