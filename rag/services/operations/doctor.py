"""Doctor: runs every consistency check and repairs what can be repaired safely.

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
from rag.services.operations import check_index, check_installation, check_jobs, check_rows
from rag.services.operations.check_result import Check, CheckResult
from rag.services.operations.check_sign_on import check_sign_on

CHECKS: dict[str, Check] = {
    "versions": check_installation.check_versions,
    "disk": check_installation.check_disk,
    "spaces": check_installation.check_partitions,
    "models": check_installation.check_store_models,
    "simplified": check_installation.check_simplified_form,
    "recognition": check_installation.check_recognition,
    "settings": check_installation.check_prices_and_rerankers,
    "sign-on": check_sign_on,
    "jobs": check_jobs.check_job_queue,
    "files": check_jobs.check_stuck_files,
    "deltas": check_rows.check_pending_statistics,
    "bytes": check_installation.check_original_files,
    "restrictions": check_rows.check_restrictions,
    "chunks": check_rows.check_missing_rows,
    "rows": check_rows.check_orphan_rows,
    "kept": check_rows.check_derived_texts,
    "totals": check_rows.check_totals,
    "frequencies": check_rows.check_frequencies,
    "weights": check_rows.check_weights,
    "statistics": check_installation.check_planner_statistics,
    "broken": check_index.check_invalid_indexes,
    "indexes": check_index.check_missing_indexes,
    "outbox": check_index.check_outbox,
    "milvus": check_index.check_milvus_counts,
    "recall": check_index.check_recall,
}


def run_checks(*, only: Sequence[str] = ()) -> Iterator[tuple[str, float, list[CheckResult]]]:
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
            findings = [CheckResult(name, "error", fault, _first_line(error))]
        yield name, time.monotonic() - started, findings


def _unreadable_database() -> Iterator[CheckResult]:
    try:
        models.Store.objects.exists()
    except ProgrammingError as error:
        is_empty = getattr(error.__cause__, "sqlstate", "") == "42P01"  # undefined table
        todo = "Run: manage.py migrate" if is_empty else "Give the role of DATABASE_URL the right."
        yield CheckResult("database", "error", _first_line(error), todo)
    except (DatabaseError, OSError) as error:
        yield CheckResult(
            "database",
            "error",
            f"it does not answer: {_first_line(error)}",
            "Check DATABASE_URL and the server.",
        )
    except RAGError as error:
        # An embedded server that does not start, or one that is too old: its hint is in the text.
        yield CheckResult("database", "error", str(error))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def repair(*, finding: CheckResult) -> CheckResult:
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
