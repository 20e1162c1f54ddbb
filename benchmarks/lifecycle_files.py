"""Lifecycle benchmark: deletion of a file of 1,000 chunks while the store serves."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import numpy as np
from django.db import connection

from benchmarks.record import Report
from benchmarks.search_world import World
from benchmarks.synthetic import SyntheticCorpus
from rag import models
from rag.core.access import Scope
from rag.core.documents import Chunk
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.providers.postgres.write.purge import merge_pending_hits
from rag.services.files.delete import delete_files
from rag.services.ingest.staged_revision import chunk_digest, indexed_text

N_FILES, SIZE = 7, 1000
N_ANSWERS, HITS = 20_000, 10
# What is kept of the store's chunks, wherever that is.
_KEPT = """
SELECT (SELECT count(*) FROM rag_chunk WHERE store_id = %(id)s)
  + (SELECT count(*) FROM rag_chunk_lex WHERE store_id = %(id)s)
  + (SELECT count(*) FROM rag_chunk_vec WHERE store_id = %(id)s)
  + (SELECT count(*) FROM rag_querylog WHERE answer <> '')
"""


def measure_deletion(report: Report, world: World, corpus: SyntheticCorpus) -> None:
    """Print how long it takes until a large file, its index rows and kept answers are gone."""
    ids = np.random.default_rng(3).integers(world.spool.n, size=(N_ANSWERS, HITS)) + world.first_id
    _answer(world, ids.tolist())
    before = _count_kept(world)
    files = [_load(world, corpus, number) for number in range(N_FILES)]
    for file in files:
        found = list(file.chunks.order_by("pk").values_list("pk", flat=True)[: 5 * HITS])
        _answer(world, [found[at : at + HITS] for at in range(0, len(found), HITS)])
    # A worker does it every few seconds.
    merge_pending_hits()
    times_ms = []
    for file in files:
        begun = time.perf_counter()
        delete_files(scope=Scope.operator(), file_ids=[file.pk])
        times_ms.append((time.perf_counter() - begun) * 1e3)
    report.add(f"deleting a file of {SIZE:,} chunks: p50 ms", float(np.median(times_ms)), most=200)
    report.add(f"deleting a file of {SIZE:,} chunks: slowest ms", max(times_ms), is_kept=False)
    report.add("rows that are left of deleted files", _count_kept(world) - before, most=0)


def _load(world: World, corpus: SyntheticCorpus, number: int) -> models.File:
    name = f"large {number}"
    file = models.File.objects.create(
        store=world.store,
        name=name,
        revision=1,
        status="completed",
        n_chunks=SIZE,
        sha256=hashlib.sha256(name.encode()).hexdigest(),
    )
    target = LoadTarget(world.store.pk, world.store.space_id)
    load_chunks(target=target, rows=_rows(file, corpus), processes=1)
    return file


def _rows(file: models.File, corpus: SyntheticCorpus) -> Iterator[LoadRow]:
    end = 0
    for ordinal, passage in enumerate(corpus.passages(SIZE)):
        start, end = end, end + len(passage.text)
        chunk = Chunk(ordinal, start, end, start, passage.text, 180)
        yield LoadRow(file.pk, chunk, chunk_digest(chunk), indexed_text(chunk), passage.vector)


def _answer(world: World, hits: list[list[int]]) -> None:
    models.QueryLog.objects.bulk_create(
        [
            models.QueryLog(
                kind="ask",
                query="?",
                store_ids=[world.store.pk],
                mode="hybrid",
                top_k=HITS,
                chunk_ids=chunk_ids,
                answer="An answer.",
            )
            for chunk_ids in hits
        ],
        batch_size=2000,
    )


def _count_kept(world: World) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, {"id": world.store.pk})
        return int(cursor.fetchone()[0])
