"""Recovery of stalled jobs, files, statistics and orphaned bytes, and retention.

Retention deletes finished jobs, query logs and usage records after the configured days.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction
from django.utils import timezone

from rag import models
from rag.conf import conf
from rag.providers.postgres.lexical import reweigh
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.search import generations
from rag.providers.postgres.write import purge
from rag.providers.postgres.write.purge import delete_old_query_rows
from rag.providers.procrastinate_queue import defer, files_without_job, purge_jobs, retry_stalled
from rag.services.files import requeue_files
from rag.services.index import reweigh_if_drifted
from rag.services.usage import period_start

# Longer than any upload takes; its bytes lie there before its row.
ORPHAN_AFTER_S = 24 * 3600.0
KEEP_JOBS_H = 7 * 24
# An upload that is alive tells so every second; its last wait may be silent for as long as it may.
_MARGIN_S = 60.0
AT_ONCE = 5000


def recover_jobs() -> int:
    """Queue stalled jobs again and files that wait for a job that no longer exists.

    A worker counts as dead after ``WORKER_STALLED_AFTER`` seconds without a heartbeat. Returns
    how many were brought back.
    """
    with transaction.atomic():
        n_back = retry_stalled(settings.PROCRASTINATE_WORKER_DEFAULTS["stalled_worker_timeout"])
    for file_id, is_fresh in files_without_job():
        n_back += defer(
            "rag.index_file", lock=f"file:{file_id}", file_id=file_id, fresh_vectors=is_fresh
        )
    late = timezone.now() - timedelta(seconds=conf().upload_timeout_s + _MARGIN_S)
    interrupted = models.File.objects.filter(
        status=models.File.Status.UPLOADING, updated_at__lt=late
    )
    for file in interrupted.light().select_related("store"):
        n_back += len(requeue_files(store=file.store, file_ids=[file.pk]))
    for store_id in stats.stores_with_deltas():
        stats.roll_up([store_id])
    for store_id in reweigh.drifted_stores():
        reweigh_if_drifted(store_id=store_id)
    generations.compact_generations()
    purge.merge_pending_hits()
    return n_back


def remove_orphans(*, older_than_s: float = ORPHAN_AFTER_S) -> int:
    """Remove bytes that no file names, left by a process that died; return how many.

    Uploads that were never finished are among them, and folders of connections that are gone.
    """
    n_removed = _remove_unfinished(older_than_s) + _remove_sync_folders()
    if not default_storage.exists("stores"):
        return n_removed
    for folder in default_storage.listdir("stores")[0]:
        place = f"stores/{folder}/"
        names = {place + name for name in default_storage.listdir(place)[1]}
        files = models.File.objects.filter(content__startswith=place)
        for name in sorted(names - set(files.values_list("content", flat=True))):
            # A file that is deleted at this very moment takes its bytes along.
            with suppress(FileNotFoundError):
                age_s = time.time() - default_storage.get_modified_time(name).timestamp()
                if age_s > older_than_s:
                    default_storage.delete(name)
                    n_removed += 1
    return n_removed


def _remove_unfinished(older_than_s: float) -> int:
    n_removed = 0
    # Another project may have left it to the system.
    folder = settings.FILE_UPLOAD_TEMP_DIR
    for path in Path(folder).glob("*.upload*") if folder else ():
        # The process that wrote it may remove it at this very moment.
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()
                n_removed += 1
    return n_removed


def _remove_sync_folders() -> int:
    n_removed = 0
    kept = {str(pk) for pk in models.Connection.objects.values_list("pk", flat=True)}
    for path in conf().connections_dir.glob("*"):
        # A sync that ends at this very moment removes its own.
        with suppress(FileNotFoundError):
            age_s = time.time() - path.stat().st_mtime
            if path.name not in kept and age_s > ORPHAN_AFTER_S:
                shutil.rmtree(path)
                n_removed += 1
    return n_removed


def purge_finished_jobs() -> None:
    """Remove finished jobs after a week, and those of the upkeep itself after an hour."""
    purge_jobs(nb_hours=1, queue="upkeep", include_failed=True)
    ended = {"include_failed": True, "include_cancelled": True, "include_aborted": True}
    purge_jobs(nb_hours=KEEP_JOBS_H, **ended)


def purge_old_queries() -> int:
    """Delete queries older than RAG_QUERY_LOG_DAYS; 0 keeps them all. Return how many went.

    In portions of their own transactions, so that nobody waits long.
    """
    days = conf().query_log_days
    if not days:
        return 0
    n_gone = 0
    while n := delete_old_query_rows(days, AT_ONCE):
        n_gone += n
    return n_gone


def purge_old_usage() -> int:
    """Delete rows of the ledger older than RAG_USAGE_DAYS; 0 keeps them all. Return how many went.

    Those of this month stay in any case: a new budget counts them.
    """
    days, now = conf().usage_days, timezone.now()
    if not days:
        return 0
    month = period_start(period=models.Budget.Period.MONTH, at=now)
    old = models.UsageRecord.objects.filter(created_at__lt=min(month, now - timedelta(days=days)))
    n_gone = 0
    while keys := list(old.order_by("pk").values_list("pk", flat=True)[:AT_ONCE]):
        n_gone += models.UsageRecord.objects.filter(pk__in=keys).delete()[0]
    return n_gone
