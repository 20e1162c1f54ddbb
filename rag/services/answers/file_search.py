"""File search: a question to stores, local or at Gemini, and its answer as JSON for the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import FileSearch, GroundedAnswer, GroundedQuestion
from rag.core.rag_node import MULTIMODAL
from rag.providers.postgres.db.connections import release_db
from rag.services.answers.local_file_search import LocalFileSearch
from rag.services.answers.remote_result import remote_result
from rag.services.gemini import gemini_file_search
from rag.services.search import log_query
from rag.services.stores import find_stores
from rag.services.usage import check_budget, metered_stream, record_answer, reserved_answer


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


KIND = models.UsageRecord.Kind.FILE_SEARCH
GEMINI = "gemini:"


def ask_stores(*, question: GroundedQuestion, scope: Scope, deadline: Deadline) -> GroundedAnswer:
    """Return the answer of the stores' backend; its tokens are recorded.

    Raises NotFoundError for a store that ``scope`` may not read, InvalidInputError for stores that
    are kept in different places, and what the backend raises.
    """
    backend, question, stores = _prepared(question, scope)
    is_remote = stores[0].is_remote
    with reserved_answer(
        scope=scope, deadline=deadline, is_remote=is_remote, model=question.model
    ) as hold:
        answer = backend.answer(question, deadline=deadline)
    # Our own models and search keep ledger and log by themselves.
    if is_remote:
        record_answer(answer=answer, kind=KIND, scope=scope, store=stores[0], hold=hold)
        _log(question, answer, scope, stores)
    return answer


async def stream_stores(
    *, question: GroundedQuestion, scope: Scope, deadline: Deadline
) -> AsyncIterator[GroundedAnswer]:
    """Yield the answer as it comes; leaving the iteration stops the model."""
    backend, question, stores = await sync_to_async(_prepared)(question, scope)
    last, text, is_remote = GroundedAnswer(""), "", stores[0].is_remote
    pieces = backend.stream(question, deadline=deadline)
    if is_remote:
        pieces = metered_stream(
            pieces=pieces,
            kind=KIND,
            scope=scope,
            deadline=deadline,
            store=stores[0],
            model=question.model,
        )
    async with aclosing(pieces):  # type: ignore[type-var]
        async for piece in pieces:
            last, text = piece, text + piece.text
            yield piece
    if is_remote:
        await sync_to_async(_log)(question, replace(last, text=text), scope, stores)
    await sync_to_async(release_db)()


def _log(
    question: GroundedQuestion, answer: GroundedAnswer, scope: Scope, stores: Sequence[models.Store]
) -> None:
    result = remote_result(question=question, answer=answer)
    result = replace(result, store_ids=tuple(store.pk for store in stores))
    log_query(result=result, scope=scope, answer=answer.text)


def check_stores(*, names: Sequence[str], scope: Scope) -> None:
    """Raise what ``ask_stores`` would before it asks: names, rights, a missing key, a budget."""
    _prepared(GroundedQuestion("?", names), scope)
    check_budget(key_id=scope.key_id)


def _prepared(
    question: GroundedQuestion, scope: Scope
) -> tuple[FileSearch, GroundedQuestion, Sequence[models.Store]]:
    stores = find_stores(names=question.stores, scope=scope)
    if len({store.backend for store in stores}) > 1:
        raise InvalidInputError(
            "The stores are kept in different places and cannot be asked together.",
            hint="Ask those at Gemini by themselves.",
        )
    names = [store.resource_name for store in stores]
    if not stores[0].is_remote:
        return LocalFileSearch(scope), replace(question, stores=names), stores
    if question.model and not question.model.startswith(GEMINI):
        raise InvalidInputError(
            "Stores at Gemini are not answered by {model}.",
            hint="Name a model of Gemini, such as {example}.",
            model=question.model,
            example=f"{GEMINI}gemini-2.5-flash",
        )
    release_db()
    model = question.model.removeprefix(GEMINI)
    return gemini_file_search(), replace(question, stores=names, model=model), stores
