"""Questions to stores of ours. In: a question and a scope. Out: what our search and a model say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from asgiref.sync import sync_to_async

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.file_search import GroundedAnswer, GroundedQuestion, Grounding
from rag.core.ports import ChatModel
from rag.core.types import SearchResult
from rag.providers.postgres.connections import release_db
from rag.services import wiring
from rag.services.answer_passages import CitedAnswer, answer_passages, stream_passages
from rag.services.cached_search import cached_search
from rag.services.log_query import log_query
from rag.services.search_targets import files_where
from rag.services.stores import find_stores
from rag.services.usage_chat import chat_for
from rag.stages.context import Context, Passage, build_context


@dataclass(frozen=True, slots=True)
class _Found:
    stores: Sequence[models.Store]
    result: SearchResult
    context: Context
    chat: ChatModel


def answer_locally(
    *, question: GroundedQuestion, scope: Scope, deadline: Deadline
) -> GroundedAnswer:
    """Return the answer of ``question.model`` (empty: the configured one), with checked quotes.

    ``documents`` are the chunks that it cites, else the answer itself. Raises NotFoundError for a
    store that ``scope`` may not read. The query log keeps it.
    """
    deadline.check()
    found = _find(question, scope, deadline)
    release_db()
    cited = answer_passages(
        question=found.result.query, context=found.context, chat=found.chat, deadline=deadline
    )
    return _finished(found, scope, cited, cited.text)


async def stream_locally(
    *, question: GroundedQuestion, scope: Scope, deadline: Deadline
) -> AsyncIterator[GroundedAnswer]:
    """Yield the answer as it comes; leaving the iteration stops the model."""
    deadline.check()
    found = await sync_to_async(_find)(question, scope, deadline)
    await sync_to_async(release_db)()
    whole = ""
    pieces = stream_passages(
        question=found.result.query, context=found.context, chat=found.chat, deadline=deadline
    )
    try:
        async for piece in pieces:
            whole += piece.text
            if not piece.is_last:
                yield GroundedAnswer(piece.text)
                continue
            yield await sync_to_async(_finished)(found, scope, piece, whole)
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]


def _find(question: GroundedQuestion, scope: Scope, deadline: Deadline) -> _Found:
    stores = find_stores(names=question.stores, scope=scope)
    chat = chat_for(scope=scope, kind="fileSearch", model=question.model, stores=stores)
    settings = stores[0].retrieval_settings
    if question.top_k is not None:
        settings = settings.but(top_k=min(question.top_k, 200))
    result = cached_search(
        query=question.text, scope=scope, stores=stores, settings=settings, is_logged=False,
        files=files_where(text=question.metadata_filter, stores=stores),
    )  # fmt: skip
    deadline.check()
    count = wiring.embedder_of(stores[0].live_space_id).tokenizer.count
    context = build_context(
        result.hits, settings.context_tokens, count, context_type=settings.context_type,
        language_of=result.query,
    )  # fmt: skip
    return _Found(stores, result, context, chat)


def _finished(found: _Found, scope: Scope, cited: CitedAnswer, whole: str) -> GroundedAnswer:
    passages = {passage.doc_id: passage for passage in found.context.passages}
    names = {store.pk: store.resource_name for store in found.stores}
    groundings = [
        _grounding(citation.verdict, passages[citation.doc_id], citation.page, names, span)
        for citation, span in zip(cited.citations, cited.spans, strict=True)
        if citation.doc_id in passages and citation.verdict != "unknown"
    ]
    log_query(
        result=found.result, scope=scope, answer=whole,
        citations=cited.citations,
    )  # fmt: skip
    texts = dict.fromkeys(one.chunk for one in groundings) or (whole,)
    return replace(cited.as_grounded(), groundings=tuple(groundings), documents=tuple(texts))


def _grounding(
    verdict: str, passage: Passage, page: int | None, names: dict[int, str], span: tuple[int, int]
) -> Grounding:
    hit = passage.hit
    store = names.get(hit.store_id or 0, "")
    return Grounding(
        source=hit.file_name, chunk=hit.text, document=f"{store}/documents/{hit.file_id}",
        page=page, start=span[0], end=span[1], verdict=verdict, store=store,
    )  # fmt: skip
