"""Store export: settings, files with bytes, chunks, edits and golden questions in one file."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.db import connection, transaction

from rag import models
from rag.providers.postgres.db.connections import execute, fetch_rows
from rag.services.stores.dump_format import (
    CHUNK_FIELDS,
    FILE_FIELDS,
    REVISION_FIELDS,
    STORE_FIELDS,
    DumpWriter,
    open_dump,
)

PIECE = 1 << 20
BATCH = 500
_VECTORS = "SELECT chunk_id, embedding::text FROM rag_chunk_vec_s{space} WHERE chunk_id = ANY(%s)"


def dump_store(*, store: models.Store, path: Path, has_vectors: bool = False) -> dict[str, int]:
    """Write settings, files with their bytes, chunks with edits and golden questions to ``path``.

    Row by row, as of one moment, however large the store. Groups go by name; people do not go.
    Return how many lines of each kind. Raises InvalidInputError for a store at Gemini.
    """
    store.require_local()
    is_alone = not connection.in_atomic_block
    with open_dump(path) as out, transaction.atomic():
        if is_alone:
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        _write(store, out, has_vectors)
        return dict(out.counts)


def _write(store: models.Store, out: DumpWriter, has_vectors: bool) -> None:
    space = models.EmbeddingSpace.objects.get(pk=store.live_space_id)
    values = {name: getattr(store, name) for name in STORE_FIELDS}
    values["reader_groups"] = _names(store.reader_groups)
    values["editor_groups"] = _names(store.editor_groups)
    values["space"] = {"model": space.model, "dim": space.dim, "version": space.version}
    out.write("store", values | {"has_vectors": has_vectors})
    for pk in list(store.files.order_by("pk").values_list("pk", flat=True)):
        _file(models.File.objects.get(pk=pk), out, space.pk if has_vectors else None)
    for question in store.golden_questions.order_by("pk").iterator():
        targets = question.targets.values("file_id", "chunk_id", "grade")
        out.write(
            "question",
            {
                "query": question.query,
                "origin": question.origin,
                "enabled": question.enabled,
                "note": question.note,
                "targets": list(targets),
            },
        )


def _file(file: models.File, out: DumpWriter, space_id: int | None) -> None:
    values = {name: getattr(file, name) for name in FILE_FIELDS}
    out.write("file", values | {"restricted_to": _names(file.restricted_to)})
    for piece in _pieces(str(file.content.name)):
        out.write("bytes", {"file_id": file.pk, "data": base64.b64encode(piece).decode()})
    chunks = file.chunks.order_by("pk")
    for start in range(0, chunks.count(), BATCH):
        rows = list(chunks.values(*CHUNK_FIELDS)[start : start + BATCH])
        vectors = _vectors(space_id, [row["id"] for row in rows])
        for row in rows:
            vector = vectors.get(row["id"])
            out.write("chunk", row if vector is None else row | {"vector": vector})
    revisions = models.ChunkRevision.objects.filter(chunk__file=file).order_by("pk")
    for row in revisions.values(*REVISION_FIELDS).iterator():
        out.write("revision", row)
    for span in file.dropped_spans.values("file_id", "char_start", "char_end"):
        out.write("dropped", span)
    for conflict in file.conflicts.values("file_id", "chunk_id", "char_start", "file_revision"):
        out.write("conflict", conflict)


def _pieces(name: str) -> Iterator[bytes]:
    if not name or not default_storage.exists(name):
        return
    with default_storage.open(name, "rb") as stream:
        while piece := stream.read(PIECE):
            yield piece


def _vectors(space_id: int | None, chunk_ids: list[int]) -> dict[int, str]:
    if space_id is None:
        return {}
    return dict(fetch_rows(_VECTORS.format(space=int(space_id)), [chunk_ids]))


def _names(groups: Any) -> list[str]:
    return sorted(groups.values_list("name", flat=True))
