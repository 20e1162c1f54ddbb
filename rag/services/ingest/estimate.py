"""Ingest estimate: chunks and embedding time of documents, from a sample; nothing is stored."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from rag import models
from rag.conf import conf
from rag.core.errors import RAGError
from rag.services.files import UploadItem, file_too_large
from rag.services.ingest.staged_revision import indexed_text
from rag.services.wiring import registry as wiring
from rag.stages.chunking.chunk import chunk_document
from rag.stages.detect.encodings import encoding_name

SAMPLE_CHARS = 200_000
SAMPLE_CHUNKS = 8


@dataclass(frozen=True, slots=True)
class IngestEstimate:
    """Counts for one ingest; ``seconds`` is the embedding's time on this machine."""

    n_files: int
    n_bytes: int
    n_chunks: int
    seconds: float
    refused: tuple[str, ...]

    def as_text(self) -> str:
        """Return the estimate for a terminal."""
        lines = [
            f"{self.n_files} files, {self.n_bytes / 1e6:.1f} MB: about {self.n_chunks} chunks,"
            f" {self.seconds:.0f} s of embedding.",
            *(f"refused: {reason}" for reason in self.refused),
        ]
        return "\n".join(lines)


def estimate_ingest(
    *, store: models.Store, items: Sequence[UploadItem], encoding: str = ""
) -> IngestEstimate:
    """Parse and cut every document as an ingest would; long texts are extrapolated.

    Raises InvalidInputError for an unknown encoding.
    """
    codec = encoding_name(encoding)
    embedder = wiring.embedder_of(store.live_space_id)
    n_chunks, refused, texts = 0, [], []
    for item in items:
        try:
            count, sample = _count(store, item, codec)
        except RAGError as error:
            refused.append(f"{item.name}: {error}")
            continue
        n_chunks += count
        texts += sample
    started = time.perf_counter()
    sample = texts[:SAMPLE_CHUNKS]
    if sample:
        embedder.embed_passages(sample[:1])
        started = time.perf_counter()
        embedder.embed_passages(sample)
    each = (time.perf_counter() - started) / max(1, len(sample))
    return IngestEstimate(
        len(items), sum(item.size for item in items), n_chunks, n_chunks * each, tuple(refused)
    )


def _count(store: models.Store, item: UploadItem, encoding: str) -> tuple[int, list[str]]:
    if item.size > conf().max_file_bytes:
        raise file_too_large(name=item.name)
    embedder = wiring.embedder_of(store.live_space_id)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "content"
        with item.open() as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        document = wiring.parser().parse(path, item.name, encoding=encoding)
    head = document
    if len(document.text) > SAMPLE_CHARS:
        head = replace(
            document,
            text=document.text[:SAMPLE_CHARS],
            pages=tuple(page for page in document.pages if page.end <= SAMPLE_CHARS),
            blocks=tuple(block for block in document.blocks if block.end <= SAMPLE_CHARS),
        )
    chunks = list(chunk_document(head, store.chunk_rule, embedder.tokenizer, (), wiring.splitter()))
    count = round(len(chunks) * len(document.text) / max(1, len(head.text)))
    return count, [indexed_text(chunk) for chunk in islice(chunks, SAMPLE_CHUNKS)]
