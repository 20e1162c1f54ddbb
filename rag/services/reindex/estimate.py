"""Reindex estimate: chunks, tokens, time, cost and disk, from a sample; nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Sum

from rag import models
from rag.conf import conf
from rag.core.ports import Embedder
from rag.providers.postgres.lexical.backfill import read_term_rows
from rag.providers.postgres.lexical.pack_rows import TermJob, pack_terms
from rag.providers.postgres.vectors.backfill import chunks_without_vector, read_embeddable
from rag.services.index import target_embedder
from rag.services.reindex.rebuild import is_stale
from rag.services.usage import price_of
from rag.services.wiring import registry as wiring
from rag.stages.text.terms import VERSION

Whats = models.ReindexRun.What
IN_TURN = (Whats.EMBEDDINGS, Whats.LEXICAL)
SAMPLE = 16
# Of a vector's row beside its numbers, and of its place in the graph; see notes on HNSW sizes.
ROW_BYTES, GRAPH_BYTES, TERM_BYTES = 120, 350, 1200


@dataclass(frozen=True, slots=True)
class ReindexEstimate:
    """Counts for one run; ``seconds`` and ``cost`` are None where they cannot be known before."""

    n_files: int
    n_chunks: int
    n_tokens: int
    seconds: float | None
    cost: Decimal | None
    currency: str
    disk_bytes: int


def estimate_reindex(
    *,
    store: models.Store,
    what: str,
    file_ids: Sequence[int] | None = None,
    model: str = "",
    only_stale: bool = False,
) -> ReindexEstimate:
    """Measure a sample; nothing is stored, and no model service is asked.

    Chunks that files are cut into anew are taken to be as many as now. Disk is what comes on top:
    while a store moves, both spaces are kept.
    """
    if only_stale and what not in IN_TURN:
        stale = store.files.filter(is_stale()).values_list("pk", flat=True)
        file_ids = [pk for pk in stale if file_ids is None or pk in file_ids]
    chunks = models.Chunk.objects.live().filter(store=store.pk)
    if file_ids is not None:
        chunks = chunks.filter(file__in=file_ids)
    if only_stale and what == Whats.EMBEDDINGS:
        chunks = chunks.filter(pk__in=chunks_without_vector(store.live_space_id, store.pk))
    elif only_stale and what == Whats.LEXICAL and store.terms_version == VERSION:
        chunks = chunks.none()
    sums = chunks.aggregate(
        n=Count("pk"), tokens=Sum("token_count"), files=Count("file", distinct=True)
    )
    n_chunks, n_tokens = sums["n"], sums["tokens"] or 0
    every = max(1, n_chunks // SAMPLE)
    ids = list(chunks.order_by("pk").values_list("pk", flat=True)[::every][:SAMPLE])
    seconds: float | None = None
    cost, currency, disk = None, "", 0
    if what in (Whats.EMBEDDINGS, Whats.ALL):
        embedder = target_embedder(store=store, model=model)
        n_tokens, seconds = _embedding_cost(embedder, ids, n_chunks, n_tokens)
        if price := price_of(model=embedder.id):
            cost, currency = price.cost(n_tokens, 0), price.currency
        if not _makes(embedder, store.space):
            disk = _space_bytes(embedder.dim, n_chunks)
    elif what == Whats.LEXICAL:
        seconds, disk = _lexical_seconds(store, ids, n_chunks), TERM_BYTES * n_chunks
    return ReindexEstimate(
        n_files=sums["files"] if file_ids is None else len(file_ids),
        n_chunks=n_chunks,
        n_tokens=n_tokens,
        seconds=seconds,
        cost=cost,
        currency=currency,
        disk_bytes=disk,
    )


def _makes(embedder: Embedder, space: models.EmbeddingSpace | None) -> bool:
    assert space is not None, "local stores have one"
    made = (embedder.id, embedder.dim, embedder.version)
    return made == (space.model, space.dim, space.version)


def _embedding_cost(
    embedder: Embedder, ids: Sequence[int], n_chunks: int, n_tokens: int
) -> tuple[int, float | None]:
    """Return the tokens of the model's own counting, and the time where it runs here."""
    texts = [passage.text for passage in read_embeddable(ids)]
    if not texts:
        return n_tokens, 0.0
    counted = sum(embedder.tokenizer.count(text) for text in texts)
    tokens = round(counted / len(texts) * n_chunks)
    if not wiring.is_local_model(model_id=embedder.id):
        return tokens, None
    embedder.embed_passages(texts[:1])
    started = time.perf_counter()
    embedder.embed_passages(texts)
    return tokens, (time.perf_counter() - started) / len(texts) * n_chunks


def _lexical_seconds(store: models.Store, ids: Sequence[int], n_chunks: int) -> float:
    rows = read_term_rows(ids)
    started = time.perf_counter()
    pack_terms(TermJob(store.pk, store.avg_len_frozen, rows))
    return (time.perf_counter() - started) / max(1, len(rows)) * n_chunks


def _space_bytes(dim: int, n_chunks: int) -> int:
    each = 2 * dim + ROW_BYTES
    if n_chunks > conf().hnsw_min_chunks:
        each += 2 * dim + GRAPH_BYTES
    return each * n_chunks
