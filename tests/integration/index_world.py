"""A small world of stores for index tests: made-up vectors, real terms, no model."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from django.db import transaction

from rag import models
from rag.core.documents import Chunk
from rag.core.ports import FileFilter, IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.bm25 import bm25_weights
from rag.providers.postgres.vectors.spaces import create_partition
from rag.providers.postgres.write import staging as drafts
from rag.providers.postgres.write.swap import SwapTarget, swap_revision
from rag.stages.text.terms import index_terms, is_han, is_identifier, query_terms, short_han_phrase

DIM = 8


def make_space(model: str = "fake:8", dim: int = DIM) -> models.EmbeddingSpace:
    """Return a space with its partition."""
    space = models.EmbeddingSpace.objects.create(model=model, dim=dim)
    create_partition(space.pk, dim)
    return space


def make_store(space: models.EmbeddingSpace, name: str = "s", **values: Any) -> models.Store:
    """Return a store."""
    return models.Store.objects.create(name=name, slug=name, space=space, **values)


def make_file(store: models.Store, name: str = "f", **values: Any) -> models.File:
    """Return a file without chunks."""
    digest = hashlib.sha256(f"{store.pk}{name}".encode()).hexdigest()
    return models.File.objects.create(store=store, name=name, sha256=digest, **values)


def unit(*values: float, dim: int = DIM) -> Any:
    """Return a normalised vector that begins with ``values``."""
    vector = np.zeros(dim, dtype=np.float32)
    vector[: len(values)] = values
    return vector / np.linalg.norm(vector)


def draft(file: models.File, texts: list[str], vectors: list[Any]) -> None:
    """Write a draft of one chunk per text."""
    rows, position = [], 0
    for ordinal, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        counts = index_terms(text)
        chunk = Chunk(ordinal, position, position + len(text), position, text, len(text))
        position += len(text)
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        weights = bm25_weights(file.store_id, counts, file.store.avg_len_frozen)
        length = sum(counts.values())
        rows.append(drafts.StagedRow(chunk, sha256, is_han(text), length, weights, vector))
    drafts.begin_staging(file.pk, "test")
    drafts.stage_rows(file.pk, "test", rows)


def publish(file: models.File, texts: list[str], vectors: list[Any]) -> list[models.Chunk]:
    """Make the texts the file's live revision and return the chunks in order."""
    draft(file, texts, vectors)
    swap(file)
    stats.roll_up([file.store_id])
    return list(models.Chunk.objects.filter(file=file, is_live=True).order_by("ordinal"))


def swap(file: models.File) -> int:
    """Swap the file's draft in."""
    with transaction.atomic():
        row = models.File.objects.select_for_update().get(pk=file.pk)
        row.revision += 1
        target = SwapTarget(
            row.pk, row.store_id, row.store.space_id, row.revision, row.content_type
        )
        row.n_chunks = swap_revision(target)
        row.save()
        return row.n_chunks


def target_of(store: models.Store, **values: Any) -> StoreTarget:
    """Return the store as the index sees it."""
    store.refresh_from_db()
    facts = {"n_chunks": store.n_chunks, "sees_restricted": False} | values
    return StoreTarget(store.pk, store.space_id, store.space.dim, **facts)


def index_query(
    stores: list[models.Store], text: str = "", vector: Any = None, **values: Any
) -> IndexQuery:
    """Return a query over stores that share a vector."""
    terms = query_terms(text) if text else {}
    vectors = {store.space_id: vector for store in stores} if vector is not None else {}
    targets = values.pop("targets", None) or [target_of(store) for store in stores]
    files = values.pop("file_ids", None)
    return IndexQuery(
        targets=targets,
        group_ids=values.pop("group_ids", frozenset()),
        vectors=vectors,
        terms=terms,
        settings=RetrievalSettings(**values.pop("settings", {})),
        codes=frozenset(filter(is_identifier, terms)),
        is_han=is_han(text),
        phrase=short_han_phrase(text),
        files=None if files is None else FileFilter(files, 10),
        **values,
    )
