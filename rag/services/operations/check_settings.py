"""Consistency checks of settings against data: models, partitions, prices, rerankers.

No service is called and no key is shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from rag import models
from rag.conf import conf
from rag.core.errors import RAGError
from rag.providers.postgres.db.connections import fetch_row
from rag.services.operations.check_result import CheckResult
from rag.services.usage import read_price
from rag.services.wiring import registry as wiring

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
        fault = _fault(space)
        if fault:
            yield CheckResult(
                "settings",
                "error",
                f"{space.model}: {fault}",
                "Restore the setting, or move its stores to a new space.",
                facts=facts,
            )


def check_partitions() -> Iterator[CheckResult]:
    """Report spaces without a table for their vectors, or with one for another dimension."""
    for space in models.EmbeddingSpace.objects.order_by("pk"):
        row = fetch_row(_DIM, [f"rag_chunk_vec_s{space.pk}"])
        is_used = space.stores.exists()
        if row is None and is_used:
            yield CheckResult(
                "spaces",
                "error",
                f"space {space.pk} has no table for its vectors",
                "Restore the database from a backup.",
                facts={"space": space.pk},
            )
        elif row is not None and f"= {space.dim})" not in row[0]:
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
