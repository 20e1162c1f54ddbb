"""Lifecycle benchmark: terms rebuilt where nothing, every weight, or every term differs."""

from __future__ import annotations

import time

from django.db import connection

from benchmarks.record import Report
from rag import models
from rag.core.access import Scope
from rag.services.reindex.runs import start_reindex
from rag.services.reindex.worker import run_reindex

# Each chunk gets the row of one half the store away, so that what is counted of it stays right.
_MIX = """
WITH one AS (SELECT chunk_id, row_number() OVER (ORDER BY chunk_id) AS n, count(*) OVER () AS total
  FROM rag_chunk_lex WHERE store_id = %s)
UPDATE rag_chunk_lex l SET len = x.len, is_han = x.is_han, w = x.w
FROM one a JOIN one b ON b.n = (a.n + a.total / 2) %% a.total + 1
  JOIN rag_chunk_lex x ON x.chunk_id = b.chunk_id
WHERE l.chunk_id = a.chunk_id
"""


def measure_words(report: Report, store: models.Store) -> None:
    """Print chunks a second of ``rag_reindex --what lexical``; the store is right in the end."""
    n = store.n_chunks
    with connection.cursor() as cursor:
        cursor.execute(_MIX, [store.pk])
    rate = _reindex(store, n_changed=n)
    report.add("words anew, all words differ: chunks/s", rate, least=5000)
    rate = _reindex(store, n_changed=0)
    report.add("words anew, nothing differs: chunks/s", rate, least=5000)
    # Within the band in which the mean is left as it is.
    models.Store.objects.filter(pk=store.pk).update(avg_len_frozen=store.avg_len_frozen * 1.15)
    rate = _reindex(store, n_changed=n)
    report.add("words anew, all weights differ: chunks/s", rate, least=5000)


def _reindex(store: models.Store, *, n_changed: int) -> float:
    """Return the rate of a run that must find so many rows to write."""
    with connection.cursor() as cursor:
        # What was written before would be cleaned up meanwhile.
        cursor.execute("VACUUM ANALYZE rag_chunk_lex")
    run, _ = start_reindex(scope=Scope.operator(), store=store, what="lexical")
    begun = time.perf_counter()
    run_reindex(run_id=run.pk)
    took_s = time.perf_counter() - begun
    run.refresh_from_db()
    assert (run.state, run.report.get("changed")) == ("done", n_changed), (run.error, run.report)
    return store.n_chunks / took_s
