"""Question answering over stores at Gemini, with the arguments and results of ``ask``.

Of the settings, metadata, content types and top_k are passed on; the rest concern local search.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from asgiref.sync import sync_to_async

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.core.types import Answer, ChatReply, Citation, RetrievalSettings
from rag.services.answers.file_search import ask_stores, stream_stores
from rag.services.answers.remote_result import metadata_filter_text, remote_answer
from rag.services.search import validated_query


def ask_remote(
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> Answer:
    """Return the answer of Gemini, each stretch checked against the chunk that it names."""
    asked = _question(question, stores, settings, model)
    started = time.perf_counter()
    answer = ask_stores(question=asked, scope=scope, deadline=Deadline(conf().timeout_s))
    told = remote_answer(question=asked, answer=answer)
    return replace(told, timings_ms={"model": (time.perf_counter() - started) * 1e3})


async def stream_remote(
    question: str,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings | None = None,
    model: str = "",
) -> AsyncGenerator[ChatReply | Citation | Answer, None]:
    """Yield the text as it comes, then the citations, then all; Gemini names sources at its end.

    The text has no marks: they would have come too late.
    """
    asked = await sync_to_async(_question)(question, stores, settings, model)
    started, text, last = time.perf_counter(), "", GroundedAnswer("")
    pieces = stream_stores(question=asked, scope=scope, deadline=Deadline(conf().timeout_s))
    async with aclosing(pieces):  # type: ignore[type-var]
        async for piece in pieces:
            last, text = piece, text + piece.text
            if piece.text:
                yield ChatReply(piece.text, model=piece.model)
    whole = replace(last, text=text)
    tell = sync_to_async(remote_answer)
    told = await tell(question=asked, answer=whole, is_marked=False)
    for citation in told.citations:
        yield citation
    yield replace(told, timings_ms={"model": (time.perf_counter() - started) * 1e3})


def _question(
    text: str, stores: Sequence[models.Store], settings: RetrievalSettings | None, model: str
) -> GroundedQuestion:
    settings = settings or stores[0].retrieval_settings
    return GroundedQuestion(
        validated_query(query=text),
        [store.resource_name for store in stores],
        top_k=settings.top_k,
        model=model,
        metadata_filter=metadata_filter_text(
            metadata=dict(settings.metadata), content_types=settings.content_types
        ),
    )
