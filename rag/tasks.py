"""Queue tasks: each calls one service. Jobs run at least once, so services are idempotent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections

from rag.core.errors import RAGError
from rag.providers.procrastinate_queue import (
    JobContext,
    RetryStrategy,
    app,
    has_overtaken,
    put_back,
    release_queue_slot,
)
from rag.services.connectors import fail_sync, run_sync_job, start_due_syncs
from rag.services.evaluation import fail_evaluation, run_evaluation_job
from rag.services.index import build_pending_indexes, drain_outbox, reweigh_store
from rag.services.ingest import index_file, record_file_error
from rag.services.operations import (
    purge_finished_jobs,
    purge_old_queries,
    purge_old_usage,
    recover_jobs,
    remove_orphans,
)
from rag.services.reindex import drop_old_space_when_due, purge_space, queue_reindex, run_reindex
from rag.services.usage import charged_to
from rag.services.webhooks import deliver_webhook, purge_deliveries, queue_due_deliveries
from rag.services.wiring.registry import is_milvus

logger = logging.getLogger(__name__)
# A database that restarts is waited for; everything else that fails is told on the file.
RETRY = RetryStrategy(
    max_attempts=20, linear_wait=5, retry_exceptions={OperationalError, InterfaceError}
)
# Whether the files of a reindex run have ended is looked at that often, in seconds.
LOOK_AGAIN_S = 5
# A file that is indexed for longer lets smaller ones pass that wait. What it has read is read again
# then, so this is not short.
SLICE_S = 20.0
# What waits for less is about to be taken by another slot.
PATIENCE_S = 2.0
# A search looks at what waits, so it is enough that this stays little.
FEED_EVERY_S = 10
# As often as is needed to bring jobs back soon after their worker counts as dead.
_RECOVERY_S = max(
    1, min(10, int(settings.PROCRASTINATE_WORKER_DEFAULTS["stalled_worker_timeout"] / 2))
)


@contextmanager
def _job(context: JobContext | None = None) -> Iterator[None]:
    """Free the queue's slot for other jobs while this one runs; close its connections."""
    try:
        if context is not None:
            release_queue_slot(context.job.id)
        yield
    finally:
        connections.close_all()


@contextmanager
def _told(fail: Callable[..., object], **record: int) -> Iterator[None]:
    """Tell an error that nobody foresaw on the job's record; a lost database is retried."""
    try:
        yield
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        logger.exception("the job of %s failed", record)
        fail(
            **record,
            error=RAGError(
                "An internal error stopped the job: {reason}.",
                hint="Nothing that was stored is lost; try again, and report it if it stays.",
                reason=type(error).__name__,
            ),
        )


def _turn_of(job: Any) -> Callable[[], bool]:
    """Return what tells a long job that smaller ones wait, once it has had its time."""
    began = time.monotonic()
    seen_at: float | None = None

    def gives_way() -> bool:
        nonlocal seen_at
        now = time.monotonic()
        if now - began < SLICE_S or not has_overtaken(job):
            seen_at = None
            return False
        seen_at = now if seen_at is None else seen_at
        return now - seen_at >= PATIENCE_S

    return gives_way


@app.task(name="rag.index_file", queue="index", retry=RETRY, pass_context=True)
def index_file_task(
    context: JobContext,
    file_id: int,
    fresh_vectors: bool = False,
    from_text: bool = False,
    user_id: int | None = None,
    key_id: int | None = None,
) -> None:
    """Index one file, on the account of whoever brought it."""
    with _job(context), _told(record_file_error, file_id=file_id):
        with charged_to(user_id=user_id, key_id=key_id):
            is_done = index_file(
                file_id=file_id,
                fresh_vectors=fresh_vectors,
                from_text=from_text,
                gives_way=_turn_of(context.job),
            )
        if not is_done:
            put_back(context.job)


@app.task(name="rag.build_indexes", queue="index", retry=RETRY, pass_context=True)
def build_indexes_task(context: JobContext, space_id: int) -> None:
    """Build the vector indexes that a space lacks."""
    with _job(context):
        build_pending_indexes(space_id=space_id)


@app.task(name="rag.reweigh_store", queue="index", retry=RETRY, pass_context=True)
def reweigh_store_task(context: JobContext, store_id: int) -> None:
    """Bring a large store's lexical weights to its mean length."""
    with _job(context):
        reweigh_store(store_id=store_id)


@app.task(name="rag.reindex_run", queue="index", retry=RETRY, pass_context=True)
def _reindex_run_task(context: JobContext, run_id: int) -> None:
    """Work off a reindex run; look again later while its files' jobs are under way."""
    with _job(context):
        if run_reindex(run_id=run_id):
            queue_reindex(run_id=run_id, delay_s=LOOK_AGAIN_S)


@app.task(name="rag.retire_run", queue="index", retry=RETRY, pass_context=True)
def _retire_run_task(context: JobContext, run_id: int, swapped_at: str) -> None:
    """Give up the space that a store has left."""
    with _job(context):
        drop_old_space_when_due(run_id=run_id, swapped_at=swapped_at)


@app.task(name="rag.clear_space", queue="index", retry=RETRY, pass_context=True)
def _clear_space_task(context: JobContext, run_id: int, space_id: int) -> None:
    """Remove a store's vectors from a space that nobody searches for it."""
    with _job(context):
        purge_space(run_id=run_id, space_id=space_id)


@app.task(name="rag.evaluation_run", queue="index", retry=RETRY, pass_context=True)
def _evaluation_run_task(context: JobContext, run_id: int) -> None:
    """Ask the golden questions of an ordered run."""
    with _job(context), _told(fail_evaluation, run_id=run_id):
        run_evaluation_job(run_id=run_id)


@app.task(name="rag.sync_run", queue="index", retry=RETRY, pass_context=True)
def _sync_run_task(context: JobContext, run_id: int) -> None:
    """Carry out an ordered sync of a connection."""
    with _job(context), _told(fail_sync, run_id=run_id):
        run_sync_job(run_id=run_id)


@app.periodic(cron="* * * * *")
@app.task(name="rag.sync_due", queue="upkeep", queueing_lock="rag.sync_due")
def _sync_due_task(timestamp: int, **_: Any) -> None:
    """Queue the syncs that are due."""
    with _job():
        start_due_syncs()


@app.task(name="rag.deliver_webhook", queue="hooks", retry=RETRY, pass_context=True)
def _deliver_webhook_task(context: JobContext, webhook_id: int) -> None:
    """Send what is due to one webhook."""
    with _job(context):
        deliver_webhook(webhook_id=webhook_id)


@app.periodic(cron="* * * * * */10")
@app.task(name="rag.webhooks_due", queue="upkeep", queueing_lock="rag.webhooks_due")
def _webhooks_due_task(timestamp: int, **_: Any) -> None:
    """Queue the webhooks that are to be tried again."""
    with _job():
        queue_due_deliveries()


@app.task(name="rag.drain_outbox", queue="upkeep", queueing_lock="rag.drain_outbox")
def _drain_outbox_task(timestamp: int, **_: Any) -> None:
    """Feed Milvus with what has changed."""
    with _job():
        try:
            drain_outbox()
        except RAGError as error:
            # What waits is fed a few seconds later, or when Milvus is back.
            logger.warning("Milvus was not fed: %s", error)


if is_milvus():
    app.periodic(cron=f"* * * * * */{FEED_EVERY_S}")(_drain_outbox_task)


# A worker that starts makes up for the last time that was missed.
@app.periodic(cron=f"* * * * * */{_RECOVERY_S}")
@app.task(name="rag.recover_jobs", queue="upkeep", queueing_lock="rag.recover_jobs")
def recover_jobs_task(timestamp: int, **_: Any) -> None:
    """Bring back what a dead worker left behind."""
    with _job():
        recover_jobs()


@app.periodic(cron="17 * * * *")
@app.task(name="rag.tidy_up", queue="upkeep", queueing_lock="rag.tidy_up")
def tidy_up_task(timestamp: int, **_: Any) -> None:
    """Remove bytes without a file, jobs that ended long ago, old queries and old costs."""
    # Each of them runs, whatever becomes of the others; what was raised fails the job then.
    with _job(), ExitStack() as stack:
        for purge in (
            purge_old_usage,
            purge_old_queries,
            purge_finished_jobs,
            purge_deliveries,
            remove_orphans,
        ):
            stack.callback(purge)
