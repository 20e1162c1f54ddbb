"""Chunking preview: how another chunk rule would cut a file's text; nothing is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models.functions import Length, Substr

from rag import models
from rag.core.access import Scope
from rag.core.documents import Block, Chunk, ChunkRule, Page, ParsedDocument
from rag.core.errors import InvalidInputError, NotFoundError
from rag.providers.postgres.db.connections import release_db
from rag.services.ingest.preserve_edits import edited_chunks
from rag.services.wiring import registry as wiring
from rag.stages.chunking.chunk import chunk_document

# As much text is cut as takes about a second.
MAX_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class ChunkPreview:
    """What a rule makes of a file's text, up to 200,000 characters of it.

    ``chunks`` are new; ``kept`` are spans of chunks that people edited or switched off, which no
    rule changes. ``n_today`` counts the live chunks of the same stretch without those that were
    added by hand, ``n_total`` estimates the new ones of the whole file.
    """

    text: str
    length: int
    chunks: Sequence[Chunk]
    kept: Sequence[tuple[int, int]]
    n_today: int

    @property
    def n_chunks(self) -> int:
        """Return how many chunks the stretch would have, kept ones included."""
        return len(self.chunks) + len(self.kept)

    @property
    def n_total(self) -> int:
        """Return how many the whole file would have; an estimate where it is longer."""
        return round(self.n_chunks * self.length / max(1, len(self.text)))

    @property
    def mean_tokens(self) -> float:
        """Return the mean length of the new chunks."""
        return sum(chunk.token_count for chunk in self.chunks) / max(1, len(self.chunks))

    @property
    def is_whole(self) -> bool:
        """Return whether that is all of the file."""
        return len(self.text) == self.length


def preview_chunks(*, scope: Scope, file_id: int, rule: ChunkRule) -> ChunkPreview:
    """Cut a file's text as an ingest would, by the same code and around what people edited.

    Raises NotFoundError to who may not read the file, InvalidInputError while it has no text.
    """
    files = models.File.objects.readable(scope).select_related("store").filter(pk=file_id)
    file = files.defer("canonical_text").first()
    if file is None:
        raise NotFoundError("There is no file {id}.", id=file_id)
    head, length = (
        models.File.objects.filter(pk=file_id)
        .values_list(Substr("canonical_text", 1, MAX_CHARS), Length("canonical_text"))
        .get()
    )
    if not head:
        raise InvalidInputError(
            "“{name}” has no text yet.", hint="Wait until it is read.", name=file.name
        )
    passages = [one for one in edited_chunks(file=file) if not one.is_added]
    holes = [one for one in passages if one.own_start < len(head)]
    holes.sort(key=lambda one: one.own_start)
    live = models.Chunk.objects.live().filter(file=file).exclude(origin=models.Chunk.Origin.ADDED)
    n_today = live.filter(own_start__lt=len(head)).count()
    embedder = wiring.embedder_of(file.store.live_space_id)
    release_db()
    chunks = chunk_document(
        _document(file, head),
        rule,
        embedder.tokenizer,
        [(one.own_start, one.char_end) for one in holes],
        wiring.splitter(),
    )
    kept = [(one.own_start, min(one.char_end, len(head))) for one in holes if one.chunk_id]
    return ChunkPreview(head, length, tuple(chunks), kept, n_today)


def _document(file: models.File, head: str) -> ParsedDocument:
    """Return the parsed document as it was stored, as far as ``head`` goes."""
    end = len(head)
    pages = [Page(**page) for page in file.pages]
    blocks = [Block(**block) for block in file.blocks if block["start"] < end]
    return ParsedDocument(
        file.kind,
        head,
        file.parser,
        pages=tuple(page for page in pages if page.start < end),
        blocks=tuple(replace(block, end=min(block.end, end)) for block in blocks),
    )
