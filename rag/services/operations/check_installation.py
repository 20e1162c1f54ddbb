"""Consistency checks of settings, original files, database server, planner statistics and disk.

No service is called, no key is shown; folders are listed and no file is opened.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection

from rag import models
from rag.conf import conf
from rag.core.errors import RAGError
from rag.providers.postgres.db.connections import execute, fetch_rows
from rag.services.ingest import is_ocr_installed
from rag.services.operations.check_result import CheckResult
from rag.services.operations.recovery import ORPHAN_AFTER_S, remove_orphans
from rag.services.usage import read_price
from rag.services.wiring import registry as wiring
from rag.stages.detect.file_errors import NEEDS_OCR
from rag.stages.text.simplified import EMBEDDED_FORM
from rag.stages.text.terms import VERSION

_DIM = """
SELECT pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = to_regclass(%s) AND contype = 'c'
  AND pg_get_constraintdef(oid) LIKE '%%vector_dims%%'
"""


def check_store_models() -> Iterator[CheckResult]:
    """Report stores whose embedding model is not the configured one, or makes other vectors now."""
    spaces = models.EmbeddingSpace.objects.filter(stores__isnull=False).distinct().order_by("pk")
    for space in spaces:
        stores = list(space.stores.order_by("pk").values_list("slug", flat=True))
        facts = {"space": space.pk, "model": space.model, "stores": stores[:20]}
        if space.model != conf().embedding_model:
            yield CheckResult(
                "settings",
                "note",
                f"{len(stores)} stores stand on {space.model},"
                f" new ones on {conf().embedding_model}",
                "Move them with rag_reindex, or restore RAG_EMBEDDING_MODEL.",
                facts=facts,
            )
        if fault := _fault(space):
            yield CheckResult(
                "settings",
                "error",
                f"{space.model}: {fault}",
                "Restore the setting, or move its stores to a new space.",
                facts=facts,
            )


def check_recognition() -> Iterator[CheckResult]:
    """Report stores that want text recognition where its package is not installed."""
    wanting = models.Store.objects.filter(ocr=True).order_by("pk")
    stores = list(wanting.values_list("slug", flat=True))
    if stores and not is_ocr_installed():
        yield CheckResult(
            "recognition",
            "error",
            f"{len(stores)} stores want text recognition (OCR), whose package is not installed",
            f"pip install {NEEDS_OCR.params['package']} on the workers, or turn it off there.",
            facts={"stores": stores[:20]},
        )


def check_simplified_form() -> Iterator[CheckResult]:
    """Report stores that were indexed before traditional characters were simplified."""
    filled = models.Store.objects.filter(backend=models.Store.Backend.LOCAL, n_chunks__gt=0)
    older = filled.exclude(space__version__endswith=f"/{EMBEDDED_FORM}")
    cut_before = filled.exclude(terms_version=VERSION)
    for stores, what, option in (
        (older, "vectors", "--model"),
        (cut_before, "words", "--what lexical --stale-only"),
    ):
        for slug, model in stores.order_by("pk").values_list("slug", "space__model"):
            order = f"{option} {model}" if option == "--model" else option
            yield CheckResult(
                "settings",
                "note",
                f"store {slug}: the {what} of traditional Chinese are not those of simplified",
                f"Run: manage.py rag_reindex --store {slug} {order}",
                facts={"store": slug},
            )


def check_partitions() -> Iterator[CheckResult]:
    """Report spaces without a table for their vectors, or with one for another dimension."""
    for space in models.EmbeddingSpace.objects.order_by("pk"):
        found = fetch_rows(_DIM, [f"rag_chunk_vec_s{space.pk}"])
        if not found and space.stores.exists():
            yield CheckResult(
                "spaces",
                "error",
                f"space {space.pk} has no table for its vectors",
                "Restore the database from a backup.",
                facts={"space": space.pk},
            )
        elif found and f"= {space.dim})" not in found[0][0]:
            yield CheckResult(
                "spaces",
                "error",
                f"the table of space {space.pk} takes other vectors than {space.dim}",
                "Restore the database from a backup.",
                facts={"space": space.pk},
            )


def check_prices_and_rerankers() -> Iterator[CheckResult]:
    """Report prices that are none, and stores that rank by an endpoint that is not set up."""
    for name in conf().prices:
        try:
            read_price(name=name)
        except RAGError as error:
            yield CheckResult("settings", "warning", str(error), "Until then its cost is unknown.")
    if not conf().rerank_url:
        wanting = models.Store.objects.filter(retrieval__rerank="endpoint")
        for slug in wanting.values_list("slug", flat=True):
            yield CheckResult(
                "settings",
                "warning",
                f"store {slug} ranks by an endpoint: none is set up",
                "Set RAG_RERANK_URL, or choose another way.",
                facts={"store": slug},
            )


def _fault(space: models.EmbeddingSpace) -> str:
    provider = space.model.partition(":")[0]
    if wiring.is_local_model(model_id=space.model):
        try:
            wiring.embedder_of(space.pk)
        except RAGError as error:
            return str(error)
    elif provider == "openai_compatible" and not conf().openai_base_url:
        return "RAG_OPENAI_BASE_URL is not set"
    elif provider == "gemini" and not conf().gemini_api_key:
        return "GEMINI_API_KEY is not set"
    return ""


MIN_POSTGRES, MIN_VECTOR = 150000, (0, 8)
# Below it the upkeep of one large store may not find the room that it needs.
MIN_FREE_BYTES = 5_000_000_000
MIN_FREE_SHARE = 0.05
_VERSIONS = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'), extversion,
  (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')
FROM pg_extension WHERE extname = 'vector'
"""
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
    shown = default_storage.listdir("stores")[0] if default_storage.exists("stores") else ()
    for folder in sorted({*named, *(f"stores/{name}" for name in shown)}):
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
            fix=lambda: f"removed {remove_orphans()} old files that belong to nothing",
        )


def check_versions() -> Iterator[CheckResult]:
    """Report which PostgreSQL and pgvector run, and when one is too old."""
    ((number, server, vector, offered),) = fetch_rows(_VERSIONS)
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
    for table, n_rows, n_changed in fetch_rows(_STALE):
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
    ((size,),) = fetch_rows("SELECT pg_database_size(current_database())")
    yield CheckResult(
        "disk", "note", f"the database takes {size / 1e9:.2f} GB", facts={"database_bytes": size}
    )
    for name, place in (("files", settings.MEDIA_ROOT), ("data", settings.VAR_DIR)):
        if not Path(place).exists():
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
