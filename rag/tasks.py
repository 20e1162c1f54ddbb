"""Queue tasks: one line each into a service. Jobs run at least once, so services repeat safely."""

from __future__ import annotations

import logging
from typing import Any

from django.db import InterfaceError, OperationalError, connections
from procrastinate import RetryStrategy
from procrastinate.contrib.django import app

from rag.core.errors import RAGError
from rag.services.index_file import index_file, record_failure
from rag.services.recover import recover_jobs
from rag.services.spaces import build_due_indexes

logger = logging.getLogger(__name__)
# A database that restarts is waited for; everything else that fails is told on the file.
RETRY = RetryStrategy(
    max_attempts=20, linear_wait=5, retry_exceptions={OperationalError, InterfaceError}
)


@app.task(name="rag.index_file", queue="index", retry=RETRY)
def index_file_task(file_id: int, fresh_vectors: bool = False) -> None:
    """Index one file."""
    try:
        index_file(file_id=file_id, fresh_vectors=fresh_vectors)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        logger.exception("file %s failed", file_id)
        reason = RAGError(
            "An internal error stopped the indexing: {reason}.",
            hint="The bytes are kept; try again, and report it if it stays.",
            reason=f"{type(error).__name__}",
        )
        record_failure(file_id=file_id, error=reason)
    finally:
        connections.close_all()


@app.task(name="rag.build_indexes", queue="index", retry=RETRY)
def build_indexes_task(space_id: int) -> None:
    """Build the vector indexes that a space lacks."""
    try:
        build_due_indexes(space_id=space_id)
    finally:
        connections.close_all()


@app.periodic(cron="* * * * * */10")
@app.task(name="rag.recover_jobs", queue="upkeep", pass_context=False)
def recover_jobs_task(timestamp: int, **_: Any) -> None:
    """Bring back what a dead worker left behind."""
    try:
        recover_jobs()
    finally:
        connections.close_all()
