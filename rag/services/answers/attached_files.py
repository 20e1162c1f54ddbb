"""Multimodal questions: files sent with a question become passages or go to Gemini.

Without a Gemini key their texts are chunked and ranked in memory and answered by the configured
chat model. Nothing of them is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import ConfigurationError, DocumentError
from rag.core.file_search import GroundedQuestion, InlineFile
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.providers.postgres.db.connections import release_db
from rag.services.answers.gemini_answer import GeminiJob
from rag.services.answers.pipeline import AnswerJob, ChatJob
from rag.services.gemini import gemini_file_search
from rag.services.tokens import count_tokens
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import chat_for
from rag.stages.chunking.chunk import chunk_document
from rag.stages.detect.mime_type import IMAGES
from rag.stages.prompting.context import Context, build_context
from rag.stages.ranking.bm25 import bm25_scores

# How many chunks are compared by meaning: each costs some milliseconds.
MAX_COMPARED = 48
SETTINGS = RetrievalSettings()
KIND = models.UsageRecord.Kind.MULTIMODAL


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
    for chunk in chunk_document(document, ChunkRule(), tokenizer, (), wiring.splitter()):
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
                table_header=chunk.context,
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


def prepare_files(
    question: str, files: Sequence[InlineFile], scope: Scope, deadline: Deadline
) -> AnswerJob:
    """Return the job of a question to files: Gemini's where there is a key.

    Raises DocumentError or InvalidInputError for a file that cannot be read, ConfigurationError
    for an image without a key.
    """
    if conf().gemini_api_key:
        return GeminiJob(
            question=GroundedQuestion(question, files=files),
            backend=gemini_file_search(),
            kind=KIND,
            scope=scope,
            deadline=deadline,
            marks="spans",
        )
    chat = chat_for(scope=scope, kind=KIND)
    # Files are read for seconds.
    release_db()
    context = file_context(question=question, files=files, deadline=deadline)
    return ChatJob(
        question=question,
        context=context,
        chat=chat,
        deadline=deadline,
        scope=scope,
        marks="spans",
    )
