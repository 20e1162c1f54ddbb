"""Search benchmark, its store of synthetic chunks, bulk-loaded and timed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.record import Report
from benchmarks.spool import Spool
from benchmarks.synthetic import DIM, PER_DOCUMENT, Question
from rag import models
from rag.core.documents import Chunk
from rag.core.plugins import PLUGINS
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.services.index.vectors import build_pending_indexes
from rag.services.ingest.staged_revision import chunk_digest, indexed_text
from rag.services.stores.lifecycle import create_store
from rag.stages.text.simplified import embedded_text
from tests.fakes.model_plugins import fake_provider

# Of 100 files these many have the content type, so a filter leaves that share of the chunks.
SHARES = {"half": 50, "tenth": 10, "hundredth": 1}
_SIZES = """
SELECT c.relname, sum(pg_total_relation_size(c.oid)) / 1e6 FROM pg_class c
WHERE c.relkind = 'r' AND (c.relname LIKE 'rag\\_chunk%' OR c.relname LIKE 'rag\\_term%')
  AND c.relname NOT LIKE '%draft' GROUP BY 1 ORDER BY 2 DESC
"""


class KnownVectors:
    """An embedder that looks made-up queries' vectors up, so that a search pays for no model."""

    id, dim, version, max_tokens = f"bench:{DIM}", DIM, "1", 512
    known: dict[str, NDArray[np.float32]] = {}
    other: NDArray[np.float32] | None = None

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a query that was filed in ``known``, else ``other``."""
        return self.known[text] if self.other is None else self.known.get(text, self.other)


def known_vectors(questions: Sequence[Question]) -> dict[str, NDArray[np.float32]]:
    """Return questions' vectors by the text that reaches an embedder: in simplified Chinese."""
    return {embedded_text(question.text): question.vector for question in questions}


def make(model: str) -> KnownVectors:
    """Return the embedder, for the registry."""
    return KnownVectors()


@dataclass(frozen=True, slots=True)
class World:
    """The store with what it was made of; chunk ``first_id + n`` is the spool's n-th passage."""

    store: models.Store
    spool: Spool
    files: list[models.File]
    questions: list[Question]
    first_id: int

    def matching(self, content_type: str) -> NDArray[np.intp]:
        """Return the numbers of the passages in files of a content type."""
        file_of = np.arange(self.spool.n) // PER_DOCUMENT
        types = np.array([file.content_type for file in self.files])
        return np.flatnonzero(types[file_of] == content_type)


def build_world(report: Report, spool: Spool, questions: list[Question]) -> World:
    """Load the spool into a new store, print speed and sizes, and return it."""
    PLUGINS.add("embedding", fake_provider("bench", make))
    KnownVectors.known.update(known_vectors(questions))
    store = create_store(name="bench", embedding_model=f"bench:{DIM}")
    files = load_store(report, spool, store)
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(id) FROM rag_chunk")
        first_id = cursor.fetchone()[0]
    return World(store, spool, files, questions, first_id)


def load_store(report: Report, spool: Spool, store: models.Store) -> list[models.File]:
    """Load the spool into an empty store, print speed and sizes, and return its files."""
    files = _files(store, -(-spool.n // PER_DOCUMENT))
    assert store.space_id is not None
    target = LoadTarget(store.pk, store.space_id)
    begun = time.perf_counter()
    with tqdm(total=spool.n, desc="loading", leave=False) as bar:
        load_chunks(target=target, rows=_rows(spool, files), on_progress=bar.update)
    loaded = time.perf_counter()
    build_pending_indexes(space_id=store.space_id, concurrently=False)
    built = time.perf_counter()
    report.add("load: rows, words' index, statistics, s", loaded - begun, is_kept=False)
    report.add("load: vectors' index, s", built - loaded, is_kept=False)
    report.add("load: chunks/s in all", spool.n / (built - begun), least=2000)
    _add_sizes(report, spool.n)
    with connection.cursor() as cursor:
        # Autovacuum would come within a minute.
        cursor.execute("VACUUM ANALYZE")
    store.refresh_from_db()
    return files


def _files(store: models.Store, n: int) -> list[models.File]:
    types = [name for name, share in SHARES.items() for _ in range(share)]
    types += ["document"] * (100 - len(types))
    return models.File.objects.bulk_create(
        [
            models.File(
                store=store,
                name=f"document {i}",
                revision=1,
                status="completed",
                sha256=hashlib.sha256(str(i).encode()).hexdigest(),
                n_chunks=PER_DOCUMENT,
                content_type=types[37 * i % 100],
                metadata={"share": types[37 * i % 100], "number": i},
            )
            for i in range(n)
        ],
        batch_size=2000,
    )


def _rows(spool: Spool, files: Sequence[models.File]) -> Iterator[LoadRow]:
    position = 0
    for number, passage in enumerate(spool):
        ordinal = number % PER_DOCUMENT
        position = position if ordinal else 0
        end = position + len(passage.text)
        page = ordinal // 3 + 1
        chunk = Chunk(ordinal, position, end, position, passage.text, 180, page, page)
        position = end + 1
        file_id = files[number // PER_DOCUMENT].pk
        yield LoadRow(file_id, chunk, chunk_digest(chunk), indexed_text(chunk), passage.vector)


def _add_sizes(report: Report, n: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SIZES)
        sizes = [(name, float(size)) for name, size in cursor.fetchall() if size > 1]
    for name, size in sizes:
        label = "vectors" if "_vec_" in name else name.removeprefix("rag_")
        report.add(f"disk: {label}, MB per 100k chunks", size * 1e5 / n, is_kept=False)
    report.add("disk: MB per 100k chunks in all", sum(s for _, s in sizes) * 1e5 / n, most=450)
