"""Bring back the jobs of workers that died, and files whose job is gone."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.conf import settings
from procrastinate.contrib.django import app

from rag.providers.procrastinate_queue import defer, files_without_job


def recover_jobs() -> int:
    """Queue stalled jobs again and files that wait for a job that no longer exists.

    A worker counts as dead after ``WORKER_STALLED_AFTER`` seconds without a heartbeat. Returns
    how many were brought back.
    """
    after_s = settings.PROCRASTINATE_WORKER_DEFAULTS["stalled_worker_timeout"]
    n_jobs = async_to_sync(_retry_stalled)(after_s)
    n_files = sum(
        defer("rag.index_file", lock=f"file:{file_id}", file_id=file_id)
        for file_id in files_without_job()
    )
    return n_jobs + n_files


async def _retry_stalled(after_s: float) -> int:
    n_jobs = 0
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=after_s):
        await app.job_manager.retry_job(job)
        n_jobs += 1
    return n_jobs
