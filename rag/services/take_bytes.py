"""Bytes become a file of a store, once. In: a stream and facts. Out: the row, queued or claimed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from django.core.files.storage import default_storage
from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from rag import models
from rag.core.documents import ChunkRule
from rag.core.errors import ConflictError
from rag.providers.procrastinate_queue import defer
from rag.services.reindex import reindex
from rag.services.store_bytes import StoredBytes, store_bytes
from rag.services.usage_payer import payer_now


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds for a new file; ``rule`` None is the store's own.

    ``is_claimed``: the caller itself brings it to where it is kept, now; no job is queued.
    """

    content_type: str = "document"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    codec: str = ""
    rule: ChunkRule | None = None
    is_claimed: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """Return the columns that say how the file is read, as far as they were given."""
        read: dict[str, Any] = {"encoding_override": self.codec} if self.codec else {}
        if self.rule is not None:
            read["max_tokens_per_chunk"] = self.rule.max_tokens
            read["max_overlap_tokens"] = self.rule.overlap_tokens
        return read

    @property
    def beginning(self) -> dict[str, Any]:
        """Return status and progress of a file that comes in."""
        states = models.File.Status
        status, stage = (
            (states.UPLOADING, "sending") if self.is_claimed else (states.PROCESSING, "waiting")
        )
        return {"status": status, "progress": {"stage": stage}}


@dataclass(frozen=True, slots=True)
class Ingested:
    """The file, whether it is new, and whether the caller, who claims it, has to bring it."""

    file: models.File
    is_new: bool
    is_due: bool = False


def take_bytes(*, store: models.Store, name: str, content: IO[bytes], facts: Facts) -> Ingested:
    """Keep the bytes and file them once a store; see ``ingest_file`` for what is raised."""
    path = f"stores/{store.pk}/{uuid.uuid4().hex}"
    is_wanted = False
    try:
        stored = store_bytes(path=path, content=content, name=name)
        taken = _file_once(store, stored, {"content": path, "name": name}, facts)
        is_wanted = taken.is_new
        return taken
    except (OperationalError, InterfaceError):
        # The row may be there although nobody could say so; if not, the upkeep removes the bytes.
        is_wanted = True
        raise
    finally:
        if not is_wanted:
            default_storage.delete(path)


def _file_once(
    store: models.Store, stored: StoredBytes, values: dict[str, Any], facts: Facts
) -> Ingested:
    try:
        # Durable: the bytes are removed when this fails, which a transaction around it would hide.
        with transaction.atomic(durable=True):
            file = models.File.objects.create(
                store=store, sha256=stored.sha256, size=stored.size, metadata=dict(facts.metadata),
                content_type=facts.content_type, **values, **facts.fields, **facts.beginning,
            )  # fmt: skip
            if not facts.is_claimed:
                defer("rag.index_file", lock=f"file:{file.pk}", file_id=file.pk, **payer_now())
            return Ingested(file, True, facts.is_claimed)
    except IntegrityError as error:
        if not models.Store.objects.filter(pk=store.pk).exists():
            raise ConflictError(
                "The store “{name}” was deleted meanwhile.", name=store.name
            ) from error
    twin = models.File.objects.light().filter(store=store, sha256=stored.sha256).first()
    if twin is None:
        # It was deleted at this very moment.
        return _file_once(store, stored, values, facts)
    is_other = any(getattr(twin, name) != value for name, value in facts.fields.items())
    is_due = is_other or twin.status in (models.File.Status.IDLE, models.File.Status.ERROR)
    if is_due:
        # Whoever brings the bytes again wants them found, and as they say.
        rows = models.File.objects.filter(pk=twin.pk)
        begun = facts.beginning if facts.is_claimed else {}
        if facts.fields or begun:
            rows.update(**facts.fields, **begun)
        if not facts.is_claimed:
            reindex(store=store, file_ids=[twin.pk])
        twin.refresh_from_db(fields=["status", "progress", *facts.fields])
    return Ingested(twin, False, is_due and facts.is_claimed)
