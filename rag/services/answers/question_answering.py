"""Question answering over stores: retrieval, prompt, chat model, citations; whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from asgiref.sync import sync_to_async

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import Answer, ChatReply, Citation, Message, RetrievalSettings, SearchResult
from rag.providers.postgres.db.connections import release_db
from rag.services.answers.ask_remote import ask_remote, stream_remote
from rag.services.search import cached_search, log_query
from rag.services.wiring import registry as wiring
from rag.services.wiring.accounts import chat_for
from rag.stages.citing.verify import CitationStream, verify_citations
from rag.stages.prompting.context import Context, build_context
from rag.stages.prompting.prompt import answer_prompt


def ask(
    *,
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> Answer:
    """Return the answer of ``model`` (``provider:model``; empty: the configured one, or Gemini)."""
    if any(store.is_remote for store in stores):
        return ask_remote(question, scope, stores, settings, model)
    chat, result, context, request = _prepare(question, scope, stores, settings, model)
    release_db()
    started = time.perf_counter()
    reply = chat.generate(request)
    return _finish(scope, result, context, reply, started)


async def stream_ask(
    *,
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> AsyncIterator[ChatReply | Citation | Answer]:
    """Yield text as it comes (joined, it is the answer's), citations, and the whole at the end."""
    if any(store.is_remote for store in stores):
        async with aclosing(stream_remote(question, scope, stores, settings, model)) as pieces:
            async for told in pieces:
                yield told
        return
    prepare = sync_to_async(_prepare)
    chat, result, context, request = await prepare(question, scope, stores, settings, model)
    await sync_to_async(release_db)()
    started = time.perf_counter()
    text, last = [], ChatReply("")
    cited = CitationStream(context.passages)
    # Not left to the garbage collector, which would let the model go on for a while.
    async with aclosing(chat.stream(request)) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            text.append(piece.text)
            last = piece
            for part in cited.feed(piece.text):
                yield replace(piece, text=part) if isinstance(part, str) else part
    for part in cited.finish():
        yield replace(last, text=part) if isinstance(part, str) else part
    reply = ChatReply("".join(text), model=last.model or chat.id, notice=last.notice)
    yield await sync_to_async(_finish)(scope, result, context, reply, started)


def _prepare(
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None,
    model: str,
) -> tuple[ChatModel, SearchResult, Context, ChatRequest]:
    chat = chat_for(scope=scope, kind="ask", model=model, stores=stores)
    if not stores:
        raise InvalidInputError("No store was chosen.", hint="Name at least one.")
    settings = settings or stores[0].retrieval_settings
    result = cached_search(
        query=question, scope=scope, stores=stores, settings=settings, is_logged=False
    )
    count = wiring.embedder_of(stores[0].live_space_id).tokenizer.count
    context = build_context(
        result.hits,
        settings.context_tokens,
        count,
        context_type=settings.context_type,
        language_of=result.query,
    )
    request = ChatRequest(
        messages=[Message(role, text) for role, text in answer_prompt(result.query, context)],
        question=result.query,
        passages=[(passage.doc_id, passage.hit.text) for passage in context.passages],
    )
    return chat, result, context, request


def _finish(
    scope: Scope, result: SearchResult, context: Context, reply: ChatReply, started: float
) -> Answer:
    answered = time.perf_counter()
    text, citations = verify_citations(reply.text, context.passages)
    timings = {
        **result.timings_ms,
        "model": (answered - started) * 1e3,
        "cite": (time.perf_counter() - answered) * 1e3,
    }
    log_query(result=result, scope=scope, answer=text, citations=citations)
    return Answer(
        question=result.query,
        text=text,
        citations=citations,
        result=result,
        model=reply.model,
        notice=reply.notice,
        timings_ms=timings,
    )
