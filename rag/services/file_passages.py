"""Files sent along, as passages for a prompt. In: paths. Out: what fits, the likeliest first.

What fits as a whole is given as a whole and in order. Of more, chunks are chosen by their words
(BM25) and the best of these by meaning too, weighted as a store's search does by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import ConfigurationError, DocumentError
from rag.core.file_search import InlineFile
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services import wiring
from rag.services.count_tokens import count_tokens
from rag.stages.chunk import chunk_document
from rag.stages.context import Context, build_context
from rag.stages.mime_type import IMAGES
from rag.stages.rank_texts import rank_texts

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
                hint="Set {setting}.", name=file.name, setting="GEMINI_API_KEY",
            )  # fmt: skip
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
                text=document.text[start : chunk.char_end], rank=len(hits) + 1, source="files",
                file_name=file.name, char_start=start, char_end=chunk.char_end,
                page_first=chunk.page_first, page_last=chunk.page_last,
                heading_path=chunk.heading_path, token_count=chunk.token_count,
            )
        )  # fmt: skip
    if not hits:
        raise DocumentError("“{name}” holds no text.", hint="Upload one with text.", name=file.name)
    return hits


def _ranked(question: str, hits: Sequence[Hit], deadline: Deadline) -> list[Hit]:
    by_words = np.array(rank_texts(question, [hit.text for hit in hits], check=deadline.check))
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
