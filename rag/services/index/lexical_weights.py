"""BM25 statistics after changes: roll up document frequencies, reweigh to the mean length.

A small store is reweighed at once, a large one by a job.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from rag import models
from rag.providers.postgres.db.locks import lock_stores
from rag.providers.postgres.lexical import reweigh
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.procrastinate_queue import defer

# What takes about a second; searches of the store see it all or nothing.
MAX_AT_ONCE = 2000
# A revision that is being swapped in may be that much older than its commit.
_MARGIN = timedelta(minutes=10)


def reweigh_file(*, file_id: int) -> None:
    """Weigh a file's chunks by its store's mean, which may have changed while they were drafted."""
    means = models.File.objects.filter(pk=file_id).values_list("store__avg_len_frozen", flat=True)
    for mean in means:
        reweigh.reweigh_locked(reweigh.reweigh_files([file_id], mean), mean)


def reweigh_if_drifted(*, store_id: int) -> None:
    """Bring a store's frozen mean and its weights to the true mean if that has left the band.

    A small store's at once; for a large one a job is queued.
    """
    if reweigh.next_mean(store_id) is None:
        return
    if models.Store.objects.filter(pk=store_id, n_chunks__gt=MAX_AT_ONCE).exists():
        defer("rag.reweigh_store", lock=f"weights:{store_id}", store_id=store_id)
        return
    with transaction.atomic():
        lock_stores([store_id])
        mean = reweigh.next_mean(store_id, at_once=True)
        if mean is None:
            return
        held = reweigh.reweigh_files(_files(store_id), mean)
        reweigh.freeze_mean(store_id, mean)
    reweigh.reweigh_locked(held, mean)


def reweigh_store(*, store_id: int) -> None:
    """Do what ``reweigh_if_drifted`` has queued, step by step.

    Done again from the beginning after a crash, when the rows that are done cost no writing. The
    mean is frozen at the end of a step, so the store counts as drifted until then.
    """
    while (mean := reweigh.next_mean(store_id)) is not None:
        started = timezone.now() - _MARGIN
        reweigh.reweigh_locked(reweigh.reweigh_files(_files(store_id), mean), mean)
        reweigh.freeze_mean(store_id, mean)
        # What came in meanwhile was weighed by the old mean.
        fresh = _files(store_id, updated_at__gte=started)
        reweigh.reweigh_locked(reweigh.reweigh_files(fresh, mean), mean)


def _files(store_id: int, **narrower: object) -> list[int]:
    files = models.File.objects.filter(store=store_id, **narrower)
    return list(files.order_by("pk").values_list("pk", flat=True))


def mark_dirty(*, file_id: int, n_more: int = 0) -> None:
    """Say on the file that chunks changed and how many came; whoever weighs texts anew looks."""
    models.File.objects.filter(pk=file_id).update(
        n_chunks=F("n_chunks") + n_more, updated_at=timezone.now()
    )


def refresh_statistics(*, store_id: int) -> None:
    """Bring a store's statistics up to date, after the commit."""
    stats.roll_up([store_id])
    reweigh_if_drifted(store_id=store_id)
