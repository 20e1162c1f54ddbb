"""A store steps over to its new space, and back. In: a run. Out: one UPDATE, or why not yet."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from rag import models
from rag.core.errors import ConflictError
from rag.providers.postgres.backfill_flip import flip_store
from rag.services.move_fill import fill_space
from rag.services.outbox import catch_up

States = models.ReindexRun.State
TRIES = 20


def swap_run(*, run: models.ReindexRun) -> None:
    """Let the store stand on the run's new space; searches that began before end in the old one.

    Both spaces are complete at that moment, and stay so until the run is retired. Raises
    ConflictError when the run is over, or chunks change faster than they are embedded.
    """
    _step(run, (States.RUNNING, States.READY, States.REFUSED), States.SWAPPED)


def roll_back_run(*, run: models.ReindexRun) -> None:
    """Let the store stand on its old space again; the new one stays complete, for another swap.

    Raises as ``swap_run`` does, also when the run is retired.
    """
    _step(run, (States.SWAPPED,), States.READY)


def _step(run: models.ReindexRun, before: tuple[str, ...], after: str) -> None:
    is_forward = after == States.SWAPPED
    spaces = (run.source, run.target) if is_forward else (run.target, run.source)
    old, new = spaces
    if old is None or new is None:
        raise ConflictError("Run {id} moves no store, or its space is gone.", id=run.pk)
    for _ in range(TRIES):
        fill_space(space_id=new.pk, store_id=run.store_id)
        catch_up()
        with transaction.atomic():
            _hold(run, before)
            if flip_store(run.store_id, old.pk, new.pk):
                continue
            now = timezone.now()
            run.state, run.stage = after, "swapped" if is_forward else "rolled back"
            run.swapped_at = now if is_forward else None
            run.report = {**run.report, run.stage.replace(" ", "_") + "_at": now.isoformat()}
            run.save(update_fields=["state", "stage", "swapped_at", "report"])
            _name_states(old, new)
            return
    raise ConflictError(
        "Chunks of “{name}” change faster than they are embedded.",
        hint="Try again when fewer files come in.", name=run.store.name,
    )  # fmt: skip


def _hold(run: models.ReindexRun, before: tuple[str, ...]) -> None:
    # First, and as it is held in the end: who holds it for its statistics would wait in a circle.
    list(models.Store.objects.select_for_update().filter(pk=run.store_id).values_list("pk"))
    row = models.ReindexRun.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if row.state not in before:
        raise ConflictError(
            "Run {id} is {state}.", hint="Look at it again.", id=run.pk, state=row.state
        )
    run.report = row.report


def _name_states(old: models.EmbeddingSpace, new: models.EmbeddingSpace) -> None:
    names = models.EmbeddingSpace.State
    models.EmbeddingSpace.objects.filter(pk=new.pk).update(state=names.LIVE)
    if not models.Store.objects.filter(space=old.pk).exists():
        models.EmbeddingSpace.objects.filter(pk=old.pk).update(state=names.RETIRED)
