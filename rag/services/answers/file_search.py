"""File search: a question to stores, local or at Gemini, and its answer as JSON for the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.core.rag_node import MULTIMODAL
from rag.services.answers.grounded import GroundedChat, GroundedGemini
from rag.services.answers.pipeline import AnswerJob, run_job, store_context, stream_job
from rag.services.gemini import gemini_file_search
from rag.services.search import files_matching_metadata, retrieve
from rag.services.stores import find_stores
from rag.services.usage import check_budget
from rag.services.wiring.accounts import chat_for

KIND = models.UsageRecord.Kind.FILE_SEARCH
GEMINI = "gemini:"


def serialize_answer(answer: GroundedAnswer, mode: str) -> dict[str, Any]:
    """Return documents, citations (left out without any), and the answer itself as an extra.

    ``documents`` are the chunks that were used; the answer where there are none, and always for
    files sent along. A citation is told once, however many claims rest on it.
    """
    is_whole = mode == MULTIMODAL or not answer.documents
    wire: dict[str, Any] = {
        "documents": [answer.text] if is_whole else list(answer.documents),
        "answer": answer.text,
    }
    places = dict.fromkeys((one.source, one.chunk) for one in answer.groundings)
    if places:
        wire["citations"] = [{"source": source, "chunk": chunk} for source, chunk in places]
    if answer.notice:
        wire["notice"] = answer.notice
    return wire


def ask_stores(*, question: GroundedQuestion, scope: Scope, deadline: Deadline) -> GroundedAnswer:
    """Return the answer of the stores' backend; its tokens are recorded.

    Raises NotFoundError for a store that ``scope`` may not read, InvalidInputError for stores that
    are kept in different places, and what the backend raises.
    """
    return run_job(partial(prepare_stores, question, scope, deadline))


def stream_stores(
    *, question: GroundedQuestion, scope: Scope, deadline: Deadline
) -> AsyncIterator[GroundedAnswer]:
    """Yield the answer as it comes; leaving the iteration stops the model."""
    return stream_job(partial(prepare_stores, question, scope, deadline))


def check_stores(*, names: Sequence[str], scope: Scope) -> None:
    """Raise what ``ask_stores`` would before it asks: names, rights, a missing key, a budget."""
    if _stores(GroundedQuestion("?", names), scope)[0].is_remote:
        gemini_file_search()
    check_budget(key_id=scope.key_id)


def prepare_stores(
    question: GroundedQuestion, scope: Scope, deadline: Deadline
) -> AnswerJob[Any, GroundedAnswer]:
    """Return the job of a question to stores: ours are searched now, Gemini's later."""
    deadline.check()
    stores = _stores(question, scope)
    if stores[0].is_remote:
        names = [store.resource_name for store in stores]
        model = question.model.removeprefix(GEMINI)
        return GroundedGemini(
            question=replace(question, stores=names, model=model),
            backend=gemini_file_search(),
            kind=KIND,
            scope=scope,
            deadline=deadline,
            stores=stores,
        )
    chat = chat_for(scope=scope, kind="fileSearch", model=question.model, stores=stores)
    settings = stores[0].retrieval_settings
    if question.top_k is not None:
        settings = settings.but(top_k=min(question.top_k, 200))
    result = retrieve(
        query=question.text,
        scope=scope,
        stores=stores,
        settings=settings,
        purpose="answer",
        files=files_matching_metadata(text=question.metadata_filter, stores=stores),
    )
    deadline.check()
    return GroundedChat(
        question=result.query,
        context=store_context(result=result, settings=settings, store=stores[0]),
        chat=chat,
        deadline=deadline,
        scope=scope,
        result=result,
        stores=stores,
    )


def _stores(question: GroundedQuestion, scope: Scope) -> Sequence[models.Store]:
    stores = find_stores(names=question.stores, scope=scope)
    if len({store.backend for store in stores}) > 1:
        raise InvalidInputError(
            "The stores are kept in different places and cannot be asked together.",
            hint="Ask those at Gemini by themselves.",
        )
    if stores[0].is_remote and question.model and not question.model.startswith(GEMINI):
        raise InvalidInputError(
            "Stores at Gemini are not answered by {model}.",
            hint="Name a model of Gemini, such as {example}.",
            model=question.model,
            example=f"{GEMINI}gemini-2.5-flash",
        )
    return stores
