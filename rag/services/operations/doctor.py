"""Looks whether everything fits together. In: nothing. Out: findings, and what was repaired.

Rows are counted by whole statements; recall and, in large stores, document frequencies are
sampled. A million chunks take less than a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from django.db import DatabaseError, ProgrammingError

from rag import models
from rag.core.errors import RAGError, UnknownNameError
from rag.services.operations import check_index, check_jobs, check_rows, check_settings
from rag.services.operations import check_index as check_outbox
from rag.services.operations import check_rows as check_statistics
from rag.services.operations import check_rows as check_terms
from rag.services.operations import check_storage as check_bytes
from rag.services.operations import check_storage as check_server
from rag.services.operations.finding import Check, Finding

CHECKS: dict[str, Check] = {
    "versions": check_server.versions,
    "disk": check_server.disk,
    "spaces": check_settings.partitions,
    "models": check_settings.models_of_stores,
    "settings": check_settings.prices_and_ranking,
    "jobs": check_jobs.jobs,
    "files": check_jobs.files_at_rest,
    "deltas": check_statistics.deltas,
    "bytes": check_bytes.original_bytes,
    "restrictions": check_rows.restrictions,
    "chunks": check_rows.chunks_without_rows,
    "rows": check_rows.rows_without_chunks,
    "totals": check_terms.totals,
    "frequencies": check_terms.frequencies,
    "weights": check_statistics.weights_off,
    "statistics": check_server.stale_statistics,
    "broken": check_index.broken_indexes,
    "indexes": check_index.missing_indexes,
    "outbox": check_outbox.outbox,
    "milvus": check_outbox.milvus_chunks,
    "recall": check_index.recall,
}


def examine(*, only: Sequence[str] = ()) -> Iterator[tuple[str, float, list[Finding]]]:
    """Yield each check's name, its seconds and its findings; ``only`` names some.

    A check that fails is a finding itself; of a database that cannot be read at all there is one
    finding, named ``database``. Raises UnknownNameError.
    """
    for name in only:
        if name not in CHECKS:
            raise UnknownNameError("check", name, CHECKS)
    started = time.monotonic()
    if unreadable := list(_unreadable_database()):
        yield "database", time.monotonic() - started, unreadable
        return
    for name, check in CHECKS.items():
        if only and name not in only:
            continue
        started = time.monotonic()
        try:
            findings = list(check())
        except (DatabaseError, RAGError, OSError) as error:
            fault = f"the check could not be made: {type(error).__name__}"
            findings = [Finding(name, "error", fault, _first_line(error))]
        yield name, time.monotonic() - started, findings


def _unreadable_database() -> Iterator[Finding]:
    try:
        models.Store.objects.exists()
    except ProgrammingError as error:
        is_empty = getattr(error.__cause__, "sqlstate", "") == "42P01"  # undefined table
        todo = "Run: manage.py migrate" if is_empty else "Give the role of DATABASE_URL the right."
        yield Finding("database", "error", _first_line(error), todo)
    except (DatabaseError, OSError) as error:
        yield Finding(
            "database",
            "error",
            f"it does not answer: {_first_line(error)}",
            "Check DATABASE_URL and the server.",
        )
    except RAGError as error:
        # An embedded server that does not start, or one that is too old: its hint is in the text.
        yield Finding("database", "error", str(error))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def repair(*, finding: Finding) -> Finding:
    """Repair what can be, and return the finding as it is then: what was done stands in ``todo``.

    What fails stays as it was, and says why.
    """
    if finding.fix is None:
        return finding
    try:
        done = finding.fix()
    except (DatabaseError, RAGError, OSError) as error:
        return replace(finding, todo=f"The repair failed: {type(error).__name__}: {error}"[:300])
    return replace(finding, level="fixed", todo=done, fix=None)
