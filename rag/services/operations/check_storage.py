"""Consistency checks of original files, database server, planner statistics and disk.

Folders are listed; no file is opened.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection

from rag import models
from rag.providers.postgres.db.connections import execute, fetch_row, fetch_rows
from rag.services.operations.check_result import CheckResult
from rag.services.operations.recovery import ORPHAN_AFTER_S, remove_orphans

MIN_POSTGRES, MIN_VECTOR = 150000, (0, 8)
# Below it the upkeep of one large store may not find the room that it needs.
MIN_FREE_BYTES = 5_000_000_000
MIN_FREE_SHARE = 0.05
_STALE = """
SELECT relname, n_live_tup, n_mod_since_analyze FROM pg_stat_user_tables
WHERE (relname LIKE 'rag\\_%%' OR relname LIKE 'agents\\_%%')
  AND n_live_tup + n_mod_since_analyze > 10000
  AND (n_mod_since_analyze > 0.2 * n_live_tup
    OR coalesce(last_analyze, last_autoanalyze) IS NULL)
ORDER BY relname
"""


def check_original_files() -> Iterator[CheckResult]:
    """Report files whose bytes are gone, and bytes that no file names."""
    named: dict[str, list[tuple[int, str]]] = {}
    rows = models.File.objects.exclude(content="").order_by("pk").values_list("pk", "content")
    for pk, content in rows.iterator(chunk_size=5000):
        folder, _, name = content.rpartition("/")
        named.setdefault(folder, []).append((pk, name))
    n_alone, missing = 0, list[int]()
    for folder in sorted({*named, *_folders()}):
        there = set(default_storage.listdir(folder)[1]) if default_storage.exists(folder) else set()
        ours = named.get(folder, [])
        missing += [pk for pk, name in ours if name not in there]
        n_alone += len(there - {name for _, name in ours})
    if missing:
        yield CheckResult(
            "bytes",
            "error",
            f"the bytes of {len(missing)} files are gone",
            "Upload them again or restore the folder; texts and chunks are still there.",
            facts={"files": missing[:20]},
        )
    if n_alone:
        yield CheckResult(
            "bytes",
            "note",
            f"{n_alone} files on disk belong to nothing",
            f"They are removed when they are {ORPHAN_AFTER_S / 3600:.0f} hours old: an upload may"
            " be at work.",
            facts={"files": n_alone},
            fix=_remove,
        )


def _folders() -> list[str]:
    if not default_storage.exists("stores"):
        return []
    return [f"stores/{name}" for name in default_storage.listdir("stores")[0]]


def _remove() -> str:
    return f"removed {remove_orphans()} old files that belong to nothing"


def check_versions() -> Iterator[CheckResult]:
    """Report which PostgreSQL and pgvector run, and when one is too old."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version')"
        )
        number, server = cursor.fetchone()
        cursor.execute(
            "SELECT extversion, (SELECT default_version FROM pg_available_extensions"
            " WHERE name = 'vector') FROM pg_extension WHERE extname = 'vector'"
        )
        vector, offered = cursor.fetchone()
    facts = {"postgres": server, "pgvector": vector}
    yield CheckResult("versions", "note", f"PostgreSQL {server}, pgvector {vector}", facts=facts)
    if number < MIN_POSTGRES:
        yield CheckResult(
            "versions",
            "error",
            f"PostgreSQL {server} is older than 15",
            "Upgrade the server.",
            facts=facts,
        )
    if tuple(map(int, vector.split(".")[:2])) < MIN_VECTOR:
        yield CheckResult(
            "versions",
            "error",
            f"pgvector {vector} is older than 0.8",
            "Install a newer one and run ALTER EXTENSION vector UPDATE.",
            facts=facts,
        )
    elif offered and offered != vector:
        yield CheckResult(
            "versions",
            "note",
            f"pgvector {offered} is installed, {vector} is in use",
            "Run ALTER EXTENSION vector UPDATE when it suits.",
            facts=facts,
        )


def check_planner_statistics() -> Iterator[CheckResult]:
    """Report tables whose statistics are old, so that the planner may choose badly."""
    rows = fetch_rows(_STALE)
    for table, n_rows, n_changed in rows:
        yield CheckResult(
            "statistics",
            "warning",
            f"{table}: {n_changed} of about {n_rows} rows have changed since it was analyzed",
            f"Run ANALYZE {table}.",
            facts={"table": table, "changed": n_changed, "rows": n_rows},
            fix=partial(_analyze, table),
        )


def check_disk() -> Iterator[CheckResult]:
    """Report how large the database is, and when a disk is nearly full."""
    size = fetch_row("SELECT pg_database_size(current_database())")[0]
    yield CheckResult(
        "disk", "note", f"the database takes {size / 1e9:.2f} GB", facts={"database_bytes": size}
    )
    for name, place in (("files", settings.MEDIA_ROOT), ("data", settings.VAR_DIR)):
        if not place.exists():
            continue
        usage = shutil.disk_usage(place)
        if usage.free < max(MIN_FREE_BYTES, MIN_FREE_SHARE * usage.total):
            yield CheckResult(
                "disk",
                "error" if usage.free < MIN_FREE_BYTES / 5 else "warning",
                f"the disk of the {name} has {usage.free / 1e9:.1f} GB left",
                "Make room, or move the folder to a larger disk.",
                facts={"free_bytes": usage.free, "total_bytes": usage.total},
            )


def _analyze(table: str) -> str:
    execute(f"ANALYZE {connection.ops.quote_name(table)}")
    return f"analyzed {table}"
