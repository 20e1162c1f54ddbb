"""Store import: a new store from a dump, in batches, with new ids.

Vectors are reused where the model is the same, else computed again.
"""

from __future__ import annotations

import base64
import json
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Any

import numpy as np
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction

from rag import models
from rag.core.errors import ConfigurationError, DocumentError
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.backfill import read_term_rows, write_terms
from rag.providers.postgres.lexical.pack_rows import TermJob, pack_terms
from rag.providers.postgres.vectors.backfill import EmbeddableChunk, write_vectors
from rag.services.files import store_bytes
from rag.services.index import backfill_space, build_pending_indexes, reweigh_if_drifted
from rag.services.stores.dump import (
    CHUNK_FIELDS,
    FILE_FIELDS,
    REVISION_FIELDS,
    SCAN_FIELDS,
    STORE_FIELDS,
    read_dump,
)
from rag.services.stores.lifecycle import create_store, delete_store

BATCH = 500
_ID_FIELDS = ("id", "file_id", "chunk_id")
_SET_AT_END = ("name", "slug", "is_public")
_REQUIRED = (*STORE_FIELDS, "space", "has_vectors", "reader_groups", "editor_groups")


def _revision(line: Any, store: Any, files: Any, chunks: Any) -> None:
    values = {name: line[name] for name in REVISION_FIELDS if name != "chunk_id"}
    models.ChunkRevision.objects.create(chunk_id=chunks[line["chunk_id"]], **values)


def _deleted_span(line: Any, store: Any, files: Any, chunks: Any) -> None:
    models.DroppedSpan.objects.create(
        file_id=files[line["file_id"]], char_start=line["char_start"], char_end=line["char_end"]
    )


def _conflict(line: Any, store: Any, files: Any, chunks: Any) -> None:
    models.ChunkConflict.objects.create(
        file_id=files[line["file_id"]],
        chunk_id=chunks[line["chunk_id"]],
        char_start=line["char_start"],
        file_revision=line["file_revision"],
    )


def _scan(line: Any, store: Any, files: Any, chunks: Any) -> None:
    values = {name: line[name] for name in SCAN_FIELDS}
    models.ScannedPage.objects.create(**values | {"file_id": files[line["file_id"]]})


def _question(line: Any, store: Any, files: Any, chunks: Any) -> None:
    values = {name: line[name] for name in ("query", "origin", "enabled", "note")}
    question = models.GoldenQuestion.objects.create(store=store, **values)
    for target in line["targets"]:
        chunk_id = target["chunk_id"] and chunks[target["chunk_id"]]
        question.targets.create(
            file_id=files[target["file_id"]], chunk_id=chunk_id, grade=target["grade"]
        )


# By kind, KeyError for others; they map the ids of the dump to those of the new rows.
_LOADERS = {
    "revision": _revision,
    "dropped": _deleted_span,
    "conflict": _conflict,
    "scan": _scan,
    "question": _question,
}


class DumpLoader:
    """Loads the lines of one dump for one new store; ``close`` writes what still waits."""

    def __init__(self, store: models.Store, *, has_vectors: bool) -> None:
        """Write into ``store``; vectors are taken only where they are of its own space."""
        self._store, self._has_vectors = store, has_vectors
        self._file: models.File | None = None
        self._bytes: IO[bytes] | None = None
        self._files: dict[int, int] = {}
        self._chunks: dict[int, int] = {}
        self._waiting: list[Mapping[str, Any]] = []

    def load(self, line: Mapping[str, Any]) -> None:
        """Write a line, or keep it for the next batch."""
        kind = line["line"]
        if kind != "bytes":
            self._save_bytes()
        if kind == "chunk":
            self._waiting.append(line)
            if len(self._waiting) >= BATCH:
                self._write_chunks()
            return
        if kind != "bytes":
            self._write_chunks()
        if kind == "file":
            self._load_file(line)
        elif kind == "bytes":
            self._bytes = self._bytes or tempfile.TemporaryFile()  # noqa: SIM115 - closed when kept
            self._bytes.write(base64.b64decode(line["data"]))
        else:
            _LOADERS[kind](line, self._store, self._files, self._chunks)

    def close(self) -> None:
        """Write what still waits, and how many chunks each file has."""
        self._save_bytes()
        self._write_chunks()
        for file in models.File.objects.filter(store=self._store).light():
            n_chunks = file.chunks.filter(is_live=True).count()
            models.File.objects.filter(pk=file.pk).update(n_chunks=n_chunks)

    def _load_file(self, line: Mapping[str, Any]) -> None:
        values = {name: line[name] for name in FILE_FIELDS if name != "id"}
        states = models.File.Status
        # What never was read is not there to be found; it waits for somebody to ask for it.
        status = states.COMPLETED if line["revision"] else states.IDLE
        self._file = models.File.objects.create(store=self._store, status=status, **values)
        groups = [Group.objects.get_or_create(name=name)[0] for name in line["restricted_to"]]
        self._file.restricted_to.set(groups)
        self._files[line["id"]] = self._file.pk

    def _save_bytes(self) -> None:
        if self._bytes is None or self._file is None:
            return
        with self._bytes as content:
            content.seek(0)
            path = f"stores/{self._store.pk}/{uuid.uuid4().hex}"
            # First the row: what a full disk lets be written goes with the store then.
            models.File.objects.filter(pk=self._file.pk).update(content=path)
            stored = store_bytes(path=path, content=content, name=self._file.name)
        self._bytes = None
        if stored.sha256 != self._file.sha256:
            raise DocumentError("The bytes of “{name}” are damaged.", name=self._file.name)

    @transaction.atomic
    def _write_chunks(self) -> None:
        lines, self._waiting = self._waiting, []
        if not lines:
            return
        made = models.Chunk.objects.bulk_create(
            models.Chunk(
                store=self._store,
                file_id=self._files[line["file_id"]],
                **{name: line[name] for name in CHUNK_FIELDS if name not in _ID_FIELDS},
            )
            for line in lines
        )
        self._chunks |= {line["id"]: row.pk for line, row in zip(lines, made, strict=True)}
        rows = read_term_rows([row.pk for row in made])
        job = TermJob(self._store.pk, self._store.avg_len_frozen, rows)
        write_terms(self._store.pk, pack_terms(job))
        if not self._has_vectors:
            return
        both = [
            (row, line["vector"])
            for row, line in zip(made, lines, strict=True)
            if line.get("vector")
        ]
        passages = [EmbeddableChunk(row.pk, row.revision, row.text) for row, _ in both]
        vectors = np.array([json.loads(vector) for _, vector in both], dtype=np.float32)
        write_vectors(self._store.live_space_id, passages, vectors)


def load_store(
    *, path: Path, name: str = "", model: str = "", on_line: Callable[[int], None] = lambda n: None
) -> models.Store:
    """Return a new store with all that a dump holds; ``name`` replaces the one in it.

    It stands on the model of the dump, or on ``model``; vectors are taken over where both are the
    same, else made anew. Nobody but operators sees it before it is whole; when it cannot become so
    it is removed. Raises DocumentError for a damaged dump, ConflictError when the name is taken,
    ConfigurationError when there is no room.
    """
    lines = read_dump(path)
    first = next(lines, None)
    if first is None or first["line"] != "store":
        raise DocumentError("“{name}” holds no store.", name=path.name)
    store = _create_store(path, first, name, model)
    is_whole = False
    try:
        _load_lines(store, first, lines, on_line)
        is_whole = True
    except (IntegrityError, KeyError, TypeError, ValueError) as error:
        raise _misfit(path, str(error).split("\n")[0]) from error
    except OSError as error:
        raise ConfigurationError(
            "“{name}” could not be loaded: {reason}.",
            hint="Make room for temporary files in {folder}, and load it again.",
            name=path.name,
            reason=error.strerror or error,
            folder=gettempdir(),
        ) from error
    finally:
        if not is_whole:
            delete_store(store=store)
    return store


def _create_store(path: Path, first: dict[str, Any], name: str, model: str) -> models.Store:
    if lacking := [key for key in _REQUIRED if key not in first]:
        raise _misfit(path, ", ".join(lacking))
    values = {key: first[key] for key in STORE_FIELDS if key not in _SET_AT_END}
    try:
        return create_store(
            name=name or first["name"],
            slug="" if name else first["slug"],
            embedding_model=model or first["space"]["model"],
            **values,
        )
    except ValidationError as error:
        raise _misfit(path, "; ".join(error.messages)) from error


def _misfit(path: Path, reason: str) -> DocumentError:
    return DocumentError(
        "“{name}” holds a line that fits nothing: {reason}.", name=path.name, reason=reason
    )


def _load_lines(
    store: models.Store, first: dict[str, Any], lines: Any, on_line: Callable[[int], None]
) -> None:
    assert store.space is not None, "local stores have one"
    own = {"model": store.space.model, "dim": store.space.dim, "version": store.space.version}
    loader = DumpLoader(store, has_vectors=first["has_vectors"] and own == first["space"])
    for line in lines:
        loader.load(line)
        on_line(1)
    loader.close()
    stats.roll_up([store.pk])
    reweigh_if_drifted(store_id=store.pk)
    backfill_space(space_id=store.live_space_id, store_id=store.pk)
    build_pending_indexes(space_id=store.live_space_id, concurrently=not connection.in_atomic_block)
    stats.merge_pending_terms()
    store.refresh_from_db()
    store.is_public = first["is_public"]
    store.save(update_fields=["is_public", "updated_at"])
    for field in ("reader_groups", "editor_groups"):
        groups = [Group.objects.get_or_create(name=name)[0] for name in first[field]]
        getattr(store, field).set(groups)
