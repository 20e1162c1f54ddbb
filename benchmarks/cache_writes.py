"""Cache benchmark: the cost of store generations for writers."""

from __future__ import annotations

import hashlib
import time

import numpy as np
from django.db import connection, transaction

from benchmarks.live_document import _row
from benchmarks.record import Report
from benchmarks.search_world import World
from benchmarks.synthetic import PER_DOCUMENT, SyntheticCorpus
from rag import models
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.write import staging as drafts
from rag.providers.postgres.write.swap import SwapTarget, swap_revision

N_SWAPS = 60
_TABLES = ("rag_chunk", "rag_chunk_vec", "rag_chunk_lex")
_SPENT = "SELECT sum(total_time) FROM pg_stat_user_functions WHERE funcname = 'rag_note_rows'"


def measure_writes(report: Report, world: World, corpus: SyntheticCorpus) -> None:
    """Print what the triggers take of a swap of 30 chunks, and what it takes with and without."""
    passages = list(corpus.passages(2 * N_SWAPS * PER_DOCUMENT))
    documents = [passages[n * PER_DOCUMENT :][:PER_DOCUMENT] for n in range(2 * N_SWAPS)]
    with connection.cursor() as cursor:
        cursor.execute("SET track_functions = 'pl'")
    times: dict[bool, list[float]] = {True: [], False: []}
    for n, document in enumerate(documents):
        is_counted = n // 10 % 2 == 0
        if n % 10 == 0:
            _switch(is_counted)
        spent = _swap(world, f"w{n}", [_row(world, i, one) for i, one in enumerate(document)])
        # The first after the switch plans its statements anew.
        if n % 10:
            times[is_counted].append(spent)
    _switch(True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(_SPENT)
        counting = float(cursor.fetchone()[0]) / N_SWAPS
    report.add("a swap of 30 chunks: counting takes ms", counting, most=1)
    for is_counted, name in ((True, "with"), (False, "without")):
        middle = float(np.percentile(times[is_counted], 50))
        report.add(f"a swap of 30 chunks {name} it: p50 ms", middle, is_kept=False)


def _swap(world: World, name: str, rows: list[drafts.StagedRow]) -> float:
    digest = hashlib.sha256(name.encode()).hexdigest()
    file = models.File.objects.create(store=world.store, name=name, sha256=digest)
    drafts.begin_staging(file.pk, "bench")
    drafts.stage_rows(file.pk, "bench", rows)
    with transaction.atomic():
        target = SwapTarget(file.pk, world.store.pk, world.store.space_id, 1, "document")
        begun = time.perf_counter()
        swap_revision(target)
        spent = (time.perf_counter() - begun) * 1e3
    stats.merge_pending_terms()
    return spent


def _switch(is_counted: bool) -> None:
    how = "ENABLE" if is_counted else "DISABLE"
    with connection.cursor() as cursor:
        for table in _TABLES:
            for event in ("insert", "update", "delete"):
                cursor.execute(f"ALTER TABLE {table} {how} TRIGGER rag_note_{event}")
