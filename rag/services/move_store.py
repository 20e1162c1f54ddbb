"""The work of a move: fill, build, judge, swap. In: a run. Out: the store on its new space.

Each part finds what is left to do, so it goes on after any crash where it stopped.
"""

from __future__ import annotations

from django.db import connection
from django.utils import timezone

from rag import models
from rag.core.errors import ConflictError
from rag.providers.postgres.backfill import missing_chunks
from rag.services.move_fill import embed_chunks
from rag.services.move_gate import judge_space, refusal_of
from rag.services.move_swap import swap_run
from rag.services.outbox import catch_up
from rag.services.reindex_progress import OnProgress, RunClock, silent
from rag.services.spaces import build_due_indexes

States = models.ReindexRun.State


def move_store(*, run: models.ReindexRun, on_progress: OnProgress = silent) -> None:
    """Bring the run to ``swapped``, ``ready`` or ``refused``; the live space serves throughout.

    Raises CancelledError when somebody cancels it, ProviderError where the model fails.
    """
    fill(run=run, on_progress=on_progress)
    assert run.target is not None, "a move has one"
    RunClock(run, stage="indexing", n_total=0)
    build_due_indexes(space_id=run.target.pk, concurrently=not connection.in_atomic_block)
    # What came in while the index was built.
    fill(run=run, on_progress=on_progress)
    catch_up()
    RunClock(run, stage="judging", n_total=0)
    report = judge_space(run=run)
    is_forced = bool(run.options.get("is_forced"))
    if is_forced and not report["passed"]:
        report |= {"forced_by": _name(run.created_by), "forced_at": timezone.now().isoformat()}
    run.report = {**run.report, **report}
    is_good = report["passed"] or is_forced
    _end(run, States.READY if is_good else States.REFUSED)
    if is_good and run.options.get("is_swapped", True):
        swap_run(run=run)


def force_run(*, run: models.ReindexRun, by: object = None) -> None:
    """Swap a ready or refused run; who overruled the gate stands in its report."""
    if run.state == States.REFUSED:
        run.report |= {"forced_by": _name(by), "forced_at": timezone.now().isoformat()}
        models.ReindexRun.objects.filter(pk=run.pk).update(report=run.report)
    elif run.state != States.READY:
        raise ConflictError("Run {id} is {state}.", id=run.pk, state=run.state)
    swap_run(run=run)


def fill(*, run: models.ReindexRun, on_progress: OnProgress = silent) -> None:
    """Embed what the new space lacks, until nothing is missing."""
    assert run.target is not None, "a move has one"
    while missing := missing_chunks(run.target.pk, run.store_id):
        clock = RunClock(run, stage="embedding", n_total=len(missing), on_progress=on_progress)
        n_written = embed_chunks(
            space_id=run.target.pk, chunk_ids=missing, on_batch=clock.tick,
            workers=int(run.options.get("workers") or 1),
        )  # fmt: skip
        if not n_written and missing == missing_chunks(run.target.pk, run.store_id):
            raise ConflictError(
                "{n} chunks of “{name}” are not in the word index.",
                hint="Make the words anew first: rag_reindex --what lexical.",
                n=len(missing), name=run.store.name,
            )  # fmt: skip


def _end(run: models.ReindexRun, state: str) -> None:
    run.state = state
    if state == States.REFUSED:
        run.error = refusal_of(run=run).as_dict()
    rows = models.ReindexRun.objects.filter(pk=run.pk, state=States.RUNNING)
    if not rows.update(state=state, report=run.report, error=run.error):
        raise ConflictError("Run {id} was cancelled.", id=run.pk)


def _name(user: object) -> str:
    return str(user) if user else "operator"
