"""Connections for tests: a store that follows an origin, synced in this process."""

from __future__ import annotations

from typing import Any

from rag import models
from rag.services.connectors import SyncResult, run_sync, save_connection, start_sync
from tests.integration.move_world import OPERATOR


def connect(
    store: models.Store, connector: str, *, name: str = "docs", **options: Any
) -> models.Connection:
    """Return the store's connection of this name, made or with these options from now on."""
    connection = store.connections.filter(name=name).first() or models.Connection(
        store=store, name=name
    )
    connection.connector, connection.options = connector, options
    save_connection(scope=OPERATOR, connection=connection)
    return connection


def sync_now(connection: models.Connection, **facts: Any) -> SyncResult:
    """Sync a connection here and now, as a command does; its error is raised."""
    connection.refresh_from_db()
    run = start_sync(scope=OPERATOR, connection=connection, is_queued=False, **facts)
    result = run_sync(run_id=run.pk, any_folder=True)
    assert result is not None
    return result


def outcome(result: SyncResult) -> dict[str, Any]:
    """Return what a sync did, by paths."""
    plan = result.plan
    return {
        "new": plan.new,
        "changed": list(plan.changed),
        "renamed": list(plan.renamed),
        "deleted": [file.path for file in plan.deleted],
        "failed": [f"{path}: {reason}" for path, reason in result.failed],
        "duplicates": plan.duplicates,
        "same": plan.n_same,
    }


def places(store: models.Store, name: str = "docs") -> dict[str, str]:
    """Return the names of the files that came by a connection, by their places there."""
    rows = store.files.filter(metadata__sync=name).values_list("metadata__path", "name")
    return dict(rows)


def errors_of(connection: models.Connection) -> str:
    """Return what the last run tells of errors, as one text."""
    run = connection.runs.first()
    assert run is not None
    return f"{run.error} {run.steps}"
