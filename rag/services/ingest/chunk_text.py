"""Text of a manually written chunk: cleaned, measured in tokens, embedded, and indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag import models
from rag.core.documents import Chunk
from rag.core.errors import ConflictError, InvalidInputError, LimitError
from rag.providers.postgres.write.index_rows import write_index_rows
from rag.services.index import current_vectors, embed_for_shadow_spaces
from rag.services.ingest.staged_revision import chunk_digest, indexed_text
from rag.services.wiring import registry as wiring
from rag.stages.detect.clean import clean_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TOKENS = 500
# What can never be so few tokens is not even counted.
MAX_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """A text with what both indexes need; ``sha256`` tells it from others as a draft's does.

    ``vectors`` has one a space: the store's live one and, while it moves, the other.
    """

    text: str
    token_count: int
    sha256: str
    indexed: str
    vectors: Mapping[int, NDArray[np.float32]]


def clean_chunk_text(text: str) -> str:
    """Return what will be kept: plain line ends, no control characters, no blank ends.

    Raises InvalidInputError for a blank text and LimitError for more than 20,000 characters.
    """
    clean = clean_text(text[: 2 * MAX_CHARS]).strip()
    if not clean:
        raise InvalidInputError(
            "A chunk needs a text.", hint="Delete the chunk if it should not exist."
        )
    if len(clean) > MAX_CHARS:
        raise LimitError(
            "The text has more than {limit} characters.",
            hint="Make two chunks of it.",
            limit=MAX_CHARS,
        )
    return clean


def embed_chunk_text(*, store: models.Store, text: str, context: str = "") -> EmbeddedText:
    """Measure and embed a clean text.

    Raises LimitError for more than 500 tokens, or fewer where the store's model takes fewer;
    what the chunk carries from elsewhere (``context``) counts.
    """
    embedder = wiring.embedder_of(store.live_space_id)
    chunk = Chunk(0, 0, 0, 0, text, 0, context=context)
    indexed = indexed_text(chunk)
    n_tokens, limit = embedder.tokenizer.count(indexed), min(MAX_TOKENS, embedder.max_tokens)
    if n_tokens > limit:
        raise LimitError(
            "The text has {n} tokens; a chunk may have {limit}.",
            hint="Make two chunks of it.",
            n=n_tokens,
            limit=limit,
        )
    count = embedder.tokenizer.count(text) if context else n_tokens
    vectors = {store.live_space_id: embedder.embed_passages([indexed])[0]}
    vectors |= embed_for_shadow_spaces(store_id=store.pk, indexed=indexed)
    return EmbeddedText(text, count, chunk_digest(chunk), indexed, vectors)


def index_chunk_text(*, chunk: models.Chunk, written: EmbeddedText) -> None:
    """Let the chunk be found by its new text, in the caller's transaction.

    Raises ConflictError when the store stands on another model by now.
    """
    space_id = models.Store.objects.values_list("space_id", flat=True).get(pk=chunk.store_id)
    if space_id not in written.vectors:
        raise ConflictError("The store moved to another model meanwhile.", hint="Save once more.")
    vectors = current_vectors(store_id=chunk.store_id, vectors=written.vectors)
    write_index_rows(chunk.pk, written.indexed, vectors)
