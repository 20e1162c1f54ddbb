"""Readiness: database, migrations, worker, disk and Milvus, as yes or no with numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor
from psycopg_pool import PoolTimeout

from rag.core.errors import ConfigurationError
from rag.providers.postgres.db.connections import fetch_row
from rag.providers.postgres.outbox.rows import outbox_state
from rag.providers.procrastinate_queue import worker_silence_s
from rag.services.operations.check_index import MAX_LAG_S
from rag.services.wiring.registry import is_milvus

MIN_FREE_BYTES = 500_000_000
# Two missed heartbeats, and the time that a worker needs to start.
WORKER_SEEN_S = 60.0
_applied: set[bool] = set()


def readiness() -> dict[str, dict[str, Any]]:
    """Return ``{check: {"ok": bool, ...}}`` of database, migrations, worker, disk and, where it
    is asked, how far Milvus is behind.

    Numbers and yes or no alone: no names, no paths, no texts of errors.
    """
    told = {"database": _safely(_database), "disk": _disk()}
    asking: dict[str, Callable[[], dict[str, Any]]] = {"migrations": _migrations, "worker": _worker}
    if is_milvus():
        asking["milvus"] = _milvus
    for name, check in asking.items():
        # Each would wait as long as the first for a database that is away.
        told[name] = _safely(check) if told["database"]["ok"] else {"ok": False}
    return told


def free_bytes() -> int:
    """Return the room that is left on the disk of the files, or on the data's, if that is less."""
    media = settings.MEDIA_ROOT if Path(settings.MEDIA_ROOT).exists() else settings.VAR_DIR
    return min(shutil.disk_usage(place).free for place in (media, settings.VAR_DIR))


def _safely(check: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return check()
    except (DatabaseError, InterfaceError, PoolTimeout, ConfigurationError):
        return {"ok": False}


def _database() -> dict[str, Any]:
    return {"ok": not fetch_row("SELECT pg_is_in_recovery()")[0]}


def _migrations() -> dict[str, Any]:
    # What was applied once stays so while this process lives; the plan costs 20 ms.
    if not _applied:
        executor = MigrationExecutor(connection)
        missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        if missing:
            return {"ok": False, "missing": missing}
        _applied.add(True)
    return {"ok": True}


def _worker() -> dict[str, Any]:
    seen_s = worker_silence_s()
    if seen_s is None:
        return {"ok": False}
    return {"ok": seen_s <= WORKER_SEEN_S, "seen_s": round(seen_s, 1)}


def _milvus() -> dict[str, Any]:
    state = outbox_state()
    is_near = state.is_on and state.lag_s <= MAX_LAG_S
    return {"ok": is_near, "waiting": state.n_waiting, "lag_s": round(state.lag_s, 1)}


def _disk() -> dict[str, Any]:
    free = free_bytes()
    return {"ok": free >= MIN_FREE_BYTES, "free_mb": free // 1_000_000}
