"""Search benchmark: a document of 30 chunks added to a store that serves."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import numpy as np
from django.db import transaction

from benchmarks.record import Report
from benchmarks.search_world import World
from benchmarks.synthetic import PER_DOCUMENT, MadePassage, Question, SyntheticCorpus
from rag import models
from rag.core.documents import Chunk
from rag.core.hits import Hit
from rag.core.ports import IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.bm25 import bm25_weights
from rag.providers.postgres.search.index import PostgresIndex
from rag.providers.postgres.write import staging as drafts
from rag.providers.postgres.write.swap import SwapTarget, swap_revision
from rag.services.ingest.staged_revision import chunk_digest, indexed_text
from rag.stages.text.terms import index_terms, is_han, query_terms

N_DOCUMENTS = 15


def measure_live_document(report: Report, world: World, corpus: SyntheticCorpus) -> None:
    """Print how long documents with vectors at hand take until a search finds them."""
    passages = list(corpus.passages(N_DOCUMENTS * PER_DOCUMENT))
    spent, merging, found = [], [], []
    for n in range(N_DOCUMENTS):
        word = f"zyqvonium{n}"
        document = passages[n * PER_DOCUMENT : (n + 1) * PER_DOCUMENT]
        document[17] = replace(document[17], text=f"{document[17].text} {word}")
        file = models.File.objects.create(
            store=world.store, name=word, sha256=hashlib.sha256(word.encode()).hexdigest()
        )
        rows = [_row(world, ordinal, passage) for ordinal, passage in enumerate(document)]
        begun = time.perf_counter()
        _publish(world, file, rows)
        spent.append((time.perf_counter() - begun) * 1e3)
        found.append(_is_found(world, file, document[3], word))
        begun = time.perf_counter()
        stats.merge_pending_terms()
        merging.append((time.perf_counter() - begun) * 1e3)
    report.add("30 chunks into the live store: p50 ms", float(np.percentile(spent, 50)), most=60)
    report.add(
        "30 chunks into the live store: p95 ms", float(np.percentile(spent, 95)), is_kept=False
    )
    middle = float(np.percentile(merging, 50))
    report.add("merging their words afterwards: p50 ms", middle, is_kept=False)
    report.add("found at commit by vector and by a new word", float(np.mean(found)), least=1)


def _row(world: World, ordinal: int, passage: MadePassage) -> drafts.StagedRow:
    chunk = Chunk(ordinal, 0, len(passage.text), 0, passage.text, 180)
    counts = index_terms(indexed_text(chunk))
    weights = bm25_weights(world.store.pk, counts, world.store.avg_len_frozen)
    return drafts.StagedRow(
        chunk,
        chunk_digest(chunk),
        is_han(passage.text),
        sum(counts.values()),
        weights,
        passage.vector,
    )


def _publish(world: World, file: models.File, rows: list[drafts.StagedRow]) -> None:
    # What the job of a file does once it has parsed and embedded.
    drafts.begin_staging(file.pk, "bench")
    drafts.stage_rows(file.pk, "bench", rows)
    target = SwapTarget(file.pk, world.store.pk, world.store.space_id, 1, "document")
    with transaction.atomic():
        models.File.objects.select_for_update().get(pk=file.pk)
        file.n_chunks = swap_revision(target)
        file.revision, file.status = 1, models.File.Status.COMPLETED
        file.save()
    stats.roll_up([world.store.pk])


def _is_found(world: World, file: models.File, passage: MadePassage, word: str) -> bool:
    by_vector = _search(world, Question("", passage.vector), "semantic")
    by_word = _search(world, Question(word, passage.vector), "keyword")
    return by_vector[0].file_id == file.pk and by_word[0].file_id == file.pk


def _search(world: World, question: Question, mode: str) -> list[Hit]:
    store = world.store
    target = StoreTarget(
        store.pk, store.space_id, len(question.vector), store.n_chunks, True, 1.0, has_hnsw=True
    )
    vectors = {} if mode == "keyword" else {store.space_id: question.vector}
    query = IndexQuery(
        targets=[target],
        group_ids=frozenset(),
        vectors=vectors,
        terms=query_terms(question.text),
        settings=RetrievalSettings(mode=mode),
        top_k=5,
    )
    return PostgresIndex().search(query)[0]
