"""Multimodal questions: files sent with a question become passages or go to Gemini.

Without a Gemini key their texts are chunked and ranked in memory and answered by the configured
chat model. Nothing of them is stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np
from asgiref.sync import sync_to_async
from numpy.typing import NDArray

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import ConfigurationError, DocumentError
from rag.core.file_search import GroundedAnswer, GroundedQuestion, Grounding, InlineFile
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import release_db
from rag.services.answers.cited_answer import CitedAnswer, answer_passages, stream_passages
from rag.services.gemini import gemini_file_search
from rag.services.tokens import count_tokens
from rag.services.usage import metered_stream, record_answer, reserved_answer
from rag.services.wiring import registry as wiring
from rag.services.wiring.accounts import chat_for
from rag.stages.chunking.chunk import chunk_document
from rag.stages.detect.mime_type import IMAGES
from rag.stages.prompting.context import Context, build_context
from rag.stages.ranking.bm25 import bm25_scores

# How many chunks are compared by meaning: each costs some milliseconds.
MAX_COMPARED = 48
SETTINGS = RetrievalSettings()


def file_context(*, question: str, files: Sequence[InlineFile], deadline: Deadline) -> Context:
    """Return the passages of the files within the budget of a prompt.

    Raises ConfigurationError for an image, which no chat model here can read, DocumentError for a
    file without text.
    """
    for file in files:
        if file.mime_type in IMAGES.values():
            raise ConfigurationError(
                "“{name}” is an image, and only Gemini reads images here.",
                hint="Set {setting}.",
                name=file.name,
                setting="GEMINI_API_KEY",
            )
    hits = [hit for file in files for hit in _hits(file, deadline)]
    budget = SETTINGS.context_tokens
    whole = build_context(hits, budget, count_tokens, language_of=question)
    if not whole.is_cut:
        return whole
    ranked = _ranked(question, hits, deadline)
    return build_context(ranked, budget, count_tokens, language_of=question)


def _hits(file: InlineFile, deadline: Deadline) -> list[Hit]:
    deadline.check()
    document = wiring.parser().parse(file.path, file.name)
    tokenizer = wiring.embedder().tokenizer
    hits: list[Hit] = []
    for chunk in chunk_document(document, ChunkRule(), tokenizer):
        deadline.check()
        # Without the repeated part: neighbours may stand side by side in a prompt.
        start = chunk.own_start
        hits.append(
            Hit(
                text=document.text[start : chunk.char_end],
                rank=len(hits) + 1,
                source="files",
                file_name=file.name,
                char_start=start,
                char_end=chunk.char_end,
                page_first=chunk.page_first,
                page_last=chunk.page_last,
                heading_path=chunk.heading_path,
                token_count=chunk.token_count,
            )
        )
    if not hits:
        raise DocumentError("“{name}” holds no text.", hint="Upload one with text.", name=file.name)
    return hits


def _ranked(question: str, hits: Sequence[Hit], deadline: Deadline) -> list[Hit]:
    by_words = np.array(bm25_scores(question, [hit.text for hit in hits], check=deadline.check))
    order = np.argsort(-by_words, kind="stable")
    chosen = [int(at) for at in order[:MAX_COMPARED] if by_words[at] > 0]
    # A question such as “what is this about?” names nothing: what stands all over is looked at.
    spread = np.linspace(0, len(hits) - 1, MAX_COMPARED).round().astype(int).tolist()
    chosen += [at for at in dict.fromkeys(spread) if at not in chosen][: MAX_COMPARED - len(chosen)]
    deadline.check()
    embedder = wiring.embedder()
    vectors = embedder.embed_passages([hits[at].text for at in chosen])
    likeness = _scaled(vectors @ embedder.embed_query(question))
    words = _scaled(by_words[chosen])
    scores = SETTINGS.vector_weight * likeness + SETTINGS.bm25_weight * words
    deadline.check()
    return [hits[chosen[int(at)]] for at in np.argsort(-scores, kind="stable")]


def _scaled(values: NDArray[Any]) -> NDArray[Any]:
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros(len(values))


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
        with reserved_answer(scope=scope, deadline=deadline, is_remote=True) as hold:
            answer = gemini_file_search().answer(asked, deadline=deadline)
        record_answer(answer=answer, kind=KIND, scope=scope, hold=hold)
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
        pieces = metered_stream(pieces=pieces, kind=KIND, scope=scope, deadline=deadline)
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
            names[one.doc_id],
            one.found or one.quote,
            page=one.page,
            start=start,
            end=end,
            verdict=one.verdict,
        )
        for one, (start, end) in zip(cited.citations, cited.spans, strict=True)
        if one.doc_id in names and one.verdict != "unknown"
    ]
    documents = tuple(dict.fromkeys(one.chunk for one in groundings))
    return replace(cited.as_grounded(), groundings=tuple(groundings), documents=documents)
