"""End of a migration: drop the old space after a grace period, or cancel and purge the new one."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from rag import models
from rag.core.errors import ConflictError
from rag.providers.postgres.vectors.backfill import delete_vectors, reindex_lock
from rag.providers.postgres.vectors.spaces import drop_partition
from rag.providers.procrastinate_queue import defer
from rag.services.index import stores_in_space
from rag.services.reindex.files import cancel_waiting_files

States = models.ReindexRun.State
# Longer than any search takes, so that none that began in the old space is still under way.
GRACE_S = 600


def drop_old_space(*, run: models.ReindexRun) -> float:
    """Give the old space up, now or ``GRACE_S`` seconds after the swap; return how many are left.

    Until then it can be rolled back. Raises ConflictError for a run that is not swapped.
    """
    with transaction.atomic():
        list(models.Store.objects.select_for_update().filter(pk=run.store_id).values_list("pk"))
        row = models.ReindexRun.objects.select_for_update(of=("self",)).get(pk=run.pk)
        if row.state != States.SWAPPED or row.swapped_at is None:
            raise ConflictError(
                "Run {id} is {state}.",
                hint="Only a swapped one is retired.",
                id=run.pk,
                state=row.state,
            )
        left_s = (row.swapped_at + timedelta(seconds=GRACE_S) - timezone.now()).total_seconds()
        if left_s > 0:
            defer(
                "rag.retire_run",
                lock=f"reindex:{run.pk}",
                delay_s=int(left_s) + 1,
                run_id=run.pk,
                swapped_at=row.swapped_at.isoformat(),
            )
            return left_s
        _finish(row, States.DONE)
        _queue_purge(row, row.source_id)
        return 0.0


def drop_old_space_when_due(*, run_id: int, swapped_at: str) -> None:
    """Retire a run if that very swap still holds; a rollback takes the wish back for good."""
    run = models.ReindexRun.objects.filter(pk=run_id, state=States.SWAPPED).first()
    if run is not None and run.swapped_at and run.swapped_at.isoformat() == swapped_at:
        drop_old_space(run=run)


def cancel_reindex(*, run: models.ReindexRun) -> None:
    """Stop a run and remove what it has built for a new space; the live one is not touched.

    Raises ConflictError for a run that is over, or swapped: that is rolled back first.
    """
    with transaction.atomic():
        list(models.Store.objects.select_for_update().filter(pk=run.store_id).values_list("pk"))
        row = models.ReindexRun.objects.select_for_update(of=("self",)).get(pk=run.pk)
        if row.state == States.SWAPPED:
            raise ConflictError("Run {id} is swapped.", hint="Roll it back first.", id=run.pk)
        if row.state not in models.ReindexRun.OPEN:
            raise ConflictError("Run {id} is over: {state}.", id=run.pk, state=row.state)
        _finish(row, States.CANCELLED)
        _queue_purge(row, row.target_id)
    cancel_waiting_files(run=row)


def purge_space(*, run_id: int, space_id: int) -> None:
    """Remove what a run's store has in a space, and the space when nobody else is in it.

    Raises OperationalError while the run is still at work.
    """
    run = models.ReindexRun.objects.filter(pk=run_id).first()
    space = models.EmbeddingSpace.objects.filter(pk=space_id).first()
    if space is None:
        return
    if run is not None and not stores_in_space(space_id=space_id).filter(pk=run.store_id).exists():
        with reindex_lock(run_id):
            delete_vectors(space_id, run.store_id)
    drop_empty_space(space=space)


def drop_empty_space(*, space: models.EmbeddingSpace) -> bool:
    """Drop a space that no store is in; return whether it is gone."""
    with transaction.atomic():
        held = models.EmbeddingSpace.objects.select_for_update().filter(pk=space.pk)
        if not held.exists() or stores_in_space(space_id=space.pk).exists():
            return False
        drop_partition(space.pk)
        held.delete()
    return True


def _finish(row: models.ReindexRun, state: str) -> None:
    row.state, row.ended_at = state, timezone.now()
    row.save(update_fields=["state", "ended_at"])


def _queue_purge(row: models.ReindexRun, space_id: int | None) -> None:
    if space_id is not None:
        defer("rag.clear_space", lock=f"space:{space_id}", run_id=row.pk, space_id=space_id)
