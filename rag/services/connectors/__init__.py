"""Connectors: a store's files follow an origin; connections, their syncs and schedules."""

from __future__ import annotations

from rag.services.connectors.connections import (
    CONNECTION_FIELDS,
    check_connection,
    connection_at,
    delete_connection,
    save_connection,
)
from rag.services.connectors.plan import SyncPlan
from rag.services.connectors.runs import (
    cancel_sync,
    fail_sync,
    run_sync,
    run_sync_job,
    start_due_syncs,
    start_sync,
)
from rag.services.connectors.sync import SyncResult
