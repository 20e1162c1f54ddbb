"""Move of a store to another embedding model: backfill, indexes, quality gate, swap, retirement.

Each step finds what is left, so that it resumes after a crash. The live space serves throughout.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from rag import models
from rag.core.errors import ConflictError
from rag.providers.postgres.vectors.backfill import (
    chunks_without_vector,
    delete_vectors,
    reindex_lock,
    switch_space,
)
from rag.providers.postgres.vectors.spaces import drop_partition
from rag.providers.procrastinate_queue import defer
from rag.services.index import (
    backfill_space,
    build_pending_indexes,
    embed_chunks,
    flush_outbox,
    stores_in_space,
)
from rag.services.reindex.quality_gate import gate_refusal, run_gate
from rag.services.reindex.rebuild import cancel_waiting_files
from rag.services.reindex.runs import OnProgress, ProgressRecorder, ignore_progress

TRIES = 20
States = models.ReindexRun.State


def swap_space(*, run: models.ReindexRun) -> None:
    """Let the store stand on the run's new space; searches that began before end in the old one.

    Both spaces are complete at that moment, and stay so until the run is retired. Raises
    ConflictError when the run is over, or chunks change faster than they are embedded.
    """
    _switch(run, (States.RUNNING, States.READY, States.REFUSED), States.SWAPPED)


def roll_back_space(*, run: models.ReindexRun) -> None:
    """Let the store stand on its old space again; the new one stays complete, for another swap.

    Raises as ``swap_space`` does, also when the run is retired.
    """
    _switch(run, (States.SWAPPED,), States.READY)


def _switch(run: models.ReindexRun, before: tuple[str, ...], after: str) -> None:
    is_forward = after == States.SWAPPED
    spaces = (run.source, run.target) if is_forward else (run.target, run.source)
    old, new = spaces
    if old is None or new is None:
        raise ConflictError("Run {id} moves no store, or its space is gone.", id=run.pk)
    for _ in range(TRIES):
        backfill_space(space_id=new.pk, store_id=run.store_id)
        flush_outbox()
        with transaction.atomic():
            row = _locked(run)
            if row.state not in before:
                raise ConflictError(
                    "Run {id} is {state}.", hint="Look at it again.", id=run.pk, state=row.state
                )
            run.report = row.report
            if switch_space(run.store_id, old.pk, new.pk):
                continue
            now = timezone.now()
            run.state, run.stage = after, "swapped" if is_forward else "rolled back"
            run.swapped_at = now if is_forward else None
            run.report = {**run.report, run.stage.replace(" ", "_") + "_at": now.isoformat()}
            run.save(update_fields=["state", "stage", "swapped_at", "report"])
            _update_space_states(old, new)
            return
    raise ConflictError(
        "Chunks of “{name}” change faster than they are embedded.",
        hint="Try again when fewer files come in.",
        name=run.store.name,
    )


def _locked(run: models.ReindexRun) -> models.ReindexRun:
    """Return the run's row, held with its store, in the caller's transaction."""
    # First, and as it is held in the end: who holds it for its statistics would wait in a circle.
    list(models.Store.objects.select_for_update().filter(pk=run.store_id).values_list("pk"))
    return models.ReindexRun.objects.select_for_update(of=("self",)).get(pk=run.pk)


def _update_space_states(old: models.EmbeddingSpace, new: models.EmbeddingSpace) -> None:
    names = models.EmbeddingSpace.State
    models.EmbeddingSpace.objects.filter(pk=new.pk).update(state=names.LIVE)
    if not models.Store.objects.filter(space=old.pk).exists():
        models.EmbeddingSpace.objects.filter(pk=old.pk).update(state=names.RETIRED)


def move_store(*, run: models.ReindexRun, on_progress: OnProgress = ignore_progress) -> None:
    """Bring the run to ``swapped``, ``ready`` or ``refused``; the live space serves throughout.

    Raises CancelledError when somebody cancels it, ProviderError where the model fails.
    """
    fill_target_space(run=run, on_progress=on_progress)
    assert run.target is not None, "a move has one"
    ProgressRecorder(run, stage="indexing", n_total=0)
    build_pending_indexes(space_id=run.target.pk, concurrently=not connection.in_atomic_block)
    # What came in while the index was built.
    fill_target_space(run=run, on_progress=on_progress)
    flush_outbox()
    ProgressRecorder(run, stage="judging", n_total=0)
    report = run_gate(run=run)
    is_forced = bool(run.options.get("is_forced"))
    if is_forced and not report["passed"]:
        report |= {
            "forced_by": _user_label(run.created_by),
            "forced_at": timezone.now().isoformat(),
        }
    run.report = {**run.report, **report}
    is_good = report["passed"] or is_forced
    _finish(run, States.READY if is_good else States.REFUSED)
    if is_good and run.options.get("is_swapped", True):
        swap_space(run=run)


def force_swap(*, run: models.ReindexRun, by: object = None) -> None:
    """Swap a ready or refused run; who overruled the gate stands in its report."""
    if run.state == States.REFUSED:
        run.report |= {"forced_by": _user_label(by), "forced_at": timezone.now().isoformat()}
        models.ReindexRun.objects.filter(pk=run.pk).update(report=run.report)
    elif run.state != States.READY:
        raise ConflictError("Run {id} is {state}.", id=run.pk, state=run.state)
    swap_space(run=run)


def fill_target_space(*, run: models.ReindexRun, on_progress: OnProgress = ignore_progress) -> None:
    """Embed what the new space lacks, until nothing is missing."""
    assert run.target is not None, "a move has one"
    while missing := chunks_without_vector(run.target.pk, run.store_id):
        clock = ProgressRecorder(
            run, stage="embedding", n_total=len(missing), on_progress=on_progress
        )
        n_written = embed_chunks(
            space_id=run.target.pk,
            chunk_ids=missing,
            on_batch=clock.tick,
            workers=int(run.options.get("workers") or 1),
        )
        if not n_written and missing == chunks_without_vector(run.target.pk, run.store_id):
            raise ConflictError(
                "{n} chunks of “{name}” are not in the word index.",
                hint="Make the words anew first: rag_reindex --what lexical.",
                n=len(missing),
                name=run.store.name,
            )


def _finish(run: models.ReindexRun, state: str) -> None:
    run.state = state
    if state == States.REFUSED:
        run.error = gate_refusal(run=run).as_dict()
    rows = models.ReindexRun.objects.filter(pk=run.pk, state=States.RUNNING)
    if not rows.update(state=state, report=run.report, error=run.error):
        raise ConflictError("Run {id} was cancelled.", id=run.pk)


def _user_label(user: object) -> str:
    return str(user) if user else "operator"


# Longer than any search takes, so that none that began in the old space is still under way.
GRACE_S = 600


def drop_old_space(*, run: models.ReindexRun) -> float:
    """Give the old space up, now or ``GRACE_S`` seconds after the swap; return how many are left.

    Until then it can be rolled back. Raises ConflictError for a run that is not swapped.
    """
    with transaction.atomic():
        row = _locked(run)
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
        _end(row, States.DONE)
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
        row = _locked(run)
        if row.state == States.SWAPPED:
            raise ConflictError("Run {id} is swapped.", hint="Roll it back first.", id=run.pk)
        if row.state not in models.ReindexRun.OPEN:
            raise ConflictError("Run {id} is over: {state}.", id=run.pk, state=row.state)
        _end(row, States.CANCELLED)
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


def _end(row: models.ReindexRun, state: str) -> None:
    row.state, row.ended_at = state, timezone.now()
    row.save(update_fields=["state", "ended_at"])


def _queue_purge(row: models.ReindexRun, space_id: int | None) -> None:
    if space_id is not None:
        defer("rag.clear_space", lock=f"space:{space_id}", run_id=row.pk, space_id=space_id)
