"""Lines of a dump become rows of a store. In: lines in order. Out: files, chunks, both indexes."""

from __future__ import annotations

import base64
import json
import tempfile
import uuid
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from django.contrib.auth.models import Group
from django.db import transaction

from rag import models
from rag.core.errors import DocumentError
from rag.providers.postgres.backfill import Passage, write_vectors
from rag.providers.postgres.backfill_pack import TermJob, pack_terms
from rag.providers.postgres.backfill_terms import read_term_rows, write_terms
from rag.services.dump_format import CHUNK_FIELDS, FILE_FIELDS
from rag.services.load_extras import take_extra
from rag.services.store_bytes import store_bytes

BATCH = 500
_OWN_ID = ("id", "file_id", "chunk_id")


class LineLoader:
    """Takes the lines of one dump for one new store; ``close`` writes what still waits."""

    def __init__(self, store: models.Store, *, has_vectors: bool) -> None:
        """Write into ``store``; vectors are taken only where they are of its own space."""
        self._store, self._has_vectors = store, has_vectors
        self._file: models.File | None = None
        self._bytes: IO[bytes] | None = None
        self._files: dict[int, int] = {}
        self._chunks: dict[int, int] = {}
        self._waiting: list[Mapping[str, Any]] = []

    def take(self, line: Mapping[str, Any]) -> None:
        """Write a line, or keep it for the next batch."""
        kind = line["line"]
        if kind != "bytes":
            self._keep_bytes()
        if kind == "chunk":
            self._waiting.append(line)
            if len(self._waiting) >= BATCH:
                self._write_chunks()
            return
        if kind != "bytes":
            self._write_chunks()
        if kind == "file":
            self._take_file(line)
        elif kind == "bytes":
            self._take_bytes(line)
        else:
            take_extra(line, self._store, self._files, self._chunks)

    def close(self) -> None:
        """Write what still waits, and how many chunks each file has."""
        self._keep_bytes()
        self._write_chunks()
        for file in models.File.objects.filter(store=self._store).light():
            n_chunks = file.chunks.filter(is_live=True).count()
            models.File.objects.filter(pk=file.pk).update(n_chunks=n_chunks)

    def _take_file(self, line: Mapping[str, Any]) -> None:
        values = {name: line[name] for name in FILE_FIELDS if name != "id"}
        states = models.File.Status
        # What never was read is not there to be found; it waits for somebody to ask for it.
        status = states.COMPLETED if line["revision"] else states.IDLE
        self._file = models.File.objects.create(store=self._store, status=status, **values)
        groups = [Group.objects.get_or_create(name=name)[0] for name in line["restricted_to"]]
        self._file.restricted_to.set(groups)
        self._files[line["id"]] = self._file.pk

    def _take_bytes(self, line: Mapping[str, Any]) -> None:
        self._bytes = self._bytes or tempfile.TemporaryFile()  # noqa: SIM115 - closed when kept
        self._bytes.write(base64.b64decode(line["data"]))

    def _keep_bytes(self) -> None:
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
                store=self._store, file_id=self._files[line["file_id"]],
                **{name: line[name] for name in CHUNK_FIELDS if name not in _OWN_ID},
            )
            for line in lines
        )  # fmt: skip
        self._chunks |= {line["id"]: row.pk for line, row in zip(lines, made, strict=True)}
        rows = read_term_rows([row.pk for row in made])
        job = TermJob(self._store.pk, self._store.avg_len_frozen, rows)
        write_terms(self._store.pk, pack_terms(job))
        if not self._has_vectors:
            return
        both = [(row, line["vector"]) for row, line in zip(made, lines, strict=True)
                if line.get("vector")]  # fmt: skip
        passages = [Passage(row.pk, row.revision, row.text) for row, _ in both]
        vectors = np.array([json.loads(vector) for _, vector in both], dtype=np.float32)
        write_vectors(self._store.live_space_id, passages, vectors)
