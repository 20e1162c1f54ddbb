"""Question answering over stores: retrieval, prompt, chat model, citations; whole or streamed.

Stores at Gemini are asked there: of the settings, metadata, content types and top_k are passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.file_search import GroundedQuestion
from rag.core.ports import ChatModel
from rag.core.sources import enhance_with
from rag.core.types import NO_ENHANCER, Answer, ChatReply, Citation, RetrievalSettings, SearchResult
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
    enhancement: str = NO_ENHANCER,
) -> Answer:
    """Return the answer of ``model`` (``provider:model``; empty: the configured one, or Gemini).

    ``enhancement`` names the prompt enhancer that words question and sources for the model. Raises
    UnknownNameError for one that nobody knows; Gemini's own stores take none.
    """
    check_enhancer(name=enhancement, stores=stores)
    writer = _Writer(model, enhancement)
    return run_job(
        partial(_prepare, question, scope, stores, settings, writer, "numbered")
    ).answer()


def check_enhancer(*, name: str, stores: Sequence[models.Store]) -> None:
    """Raise for a prompt enhancer that nobody knows, or that could not act."""
    enhance_with(name, "", "")
    if name != NO_ENHANCER and any(store.is_remote for store in stores):
        raise InvalidInputError("Stores at Gemini take no enhancement.", hint="Leave it out.")


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
    prepare = partial(_prepare, question, scope, stores, settings, _Writer(model), "spans")
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


def check_model(*, name: str) -> None:
    """Raise UnknownNameError for a chat model that the installation does not name for requests."""
    known = (conf().chat_model, *conf().ask_models)
    if name not in known:
        raise UnknownNameError("chat model", name, known)


@dataclass(frozen=True, slots=True)
class _Writer:
    model: str
    enhancement: str = NO_ENHANCER


def _prepare(
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None,
    writer: _Writer,
    remote_marks: Marks,
) -> AnswerJob:
    if any(store.is_remote for store in stores):
        chosen = settings or stores[0].retrieval_settings
        asked = GroundedQuestion(
            validated_query(query=question),
            [store.resource_name for store in stores],
            top_k=chosen.top_k,
            model=writer.model,
            metadata_filter=metadata_filter_text(
                metadata=dict(chosen.metadata), content_types=chosen.content_types
            ),
        )
        return prepare_stores(asked, scope, Deadline(conf().timeout_s), remote_marks)
    chat = chat_for(scope=scope, kind="ask", model=writer.model, stores=stores)
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    settings = settings or stores[0].retrieval_settings
    result = retrieve(
        query=question, scope=scope, stores=stores, settings=settings, purpose="answer"
    )
    return store_job(
        result=result,
        settings=settings,
        stores=stores,
        chat=chat,
        scope=scope,
        enhancement=writer.enhancement,
    )
