"""Chunking preview of a file by another rule, and estimate of an ingest; nothing is stored."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from django.db.models.functions import Length, Substr

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.documents import Block, Chunk, ChunkRule, Page, ParsedDocument
from rag.core.errors import DocumentError, InvalidInputError, NotFoundError, RAGError
from rag.providers.postgres.db.connections import release_db
from rag.services.files import UploadItem, file_too_large
from rag.services.ingest.preserve_edits import edited_chunks
from rag.services.ingest.recognition import count_pages_for_ocr
from rag.services.ingest.staged_revision import indexed_text
from rag.services.wiring import registry as wiring
from rag.stages.chunking.chunk import chunk_document
from rag.stages.detect.decode import encoding_name

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
        wiring.splitter(rule.splitter),
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


SAMPLE_CHARS = 200_000
SAMPLE_CHUNKS = 8
# As docs/benchmarks.md has them, on two processors.
SCANS_A_MINUTE = 25


@dataclass(frozen=True, slots=True)
class IngestEstimate:
    """Counts for one ingest; ``seconds`` is the embedding's time on this machine.

    ``n_scanned`` pages are to be recognized; what they hold is not among the chunks.
    """

    n_files: int
    n_bytes: int
    n_chunks: int
    seconds: float
    refused: tuple[str, ...]
    n_scanned: int = 0

    def as_text(self) -> str:
        """Return the estimate for a terminal."""
        lines = [
            f"{self.n_files} files, {self.n_bytes / 1e6:.1f} MB: about {self.n_chunks} chunks,"
            f" {self.seconds:.0f} s of embedding.",
            *([self._recognition] if self.n_scanned else []),
            *(f"refused: {reason}" for reason in self.refused),
        ]
        return "\n".join(lines)

    @property
    def _recognition(self) -> str:
        minutes = max(1, round(self.n_scanned / SCANS_A_MINUTE))
        return (
            f"Text recognition of {self.n_scanned} pages: about {minutes} minutes on two"
            " processors; their chunks are not counted."
        )


def estimate_ingest(
    *, store: models.Store, items: Sequence[UploadItem], encoding: str = ""
) -> IngestEstimate:
    """Parse and cut every document as an ingest would; long texts are extrapolated.

    Raises InvalidInputError for an unknown encoding.
    """
    codec = encoding_name(encoding)
    embedder = wiring.embedder_of(store.live_space_id)
    n_chunks, n_scanned, refused, texts = 0, 0, [], []
    for item in items:
        try:
            count, n_pages, sample = _count(store, item, codec)
        except RAGError as error:
            refused.append(f"{item.name}: {error}")
            continue
        n_chunks += count
        n_scanned += n_pages
        texts += sample
    started = time.perf_counter()
    sample = texts[:SAMPLE_CHUNKS]
    if sample:
        embedder.embed_passages(sample[:1])
        started = time.perf_counter()
        embedder.embed_passages(sample)
    each = (time.perf_counter() - started) / max(1, len(sample))
    n_bytes = sum(item.size for item in items)
    return IngestEstimate(len(items), n_bytes, n_chunks, n_chunks * each, tuple(refused), n_scanned)


def _count(store: models.Store, item: UploadItem, encoding: str) -> tuple[int, int, list[str]]:
    """Return how many chunks a file has, its pages for OCR, and some texts of its chunks."""
    if item.size > conf().max_file_bytes:
        raise file_too_large(name=item.name)
    embedder = wiring.embedder_of(store.live_space_id)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "content"
        with item.open() as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        reader = wiring.parser(with_hidden=store.reads_hidden_cells)
        n_scanned = count_pages_for_ocr(path=path, name=item.name) if store.ocr else 0
        try:
            document = reader.parse(path, item.name, encoding=encoding)
        except DocumentError:
            # What has no text of its own has words once it is recognized.
            if not n_scanned:
                raise
            return 0, n_scanned, []
    head = document
    if len(document.text) > SAMPLE_CHARS:
        head = replace(
            document,
            text=document.text[:SAMPLE_CHARS],
            pages=tuple(page for page in document.pages if page.end <= SAMPLE_CHARS),
            blocks=tuple(block for block in document.blocks if block.end <= SAMPLE_CHARS),
        )
    rule = store.chunk_rule
    cutter = wiring.splitter(rule.splitter)
    chunks = list(chunk_document(head, rule, embedder.tokenizer, (), cutter))
    count = round(len(chunks) * len(document.text) / max(1, len(head.text)))
    return count, n_scanned, [indexed_text(chunk) for chunk in islice(chunks, SAMPLE_CHUNKS)]
