"""A file into a store: streamed to disk, hashed, filed once, queued."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from django.core.files.storage import default_storage
from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from rag import models
from rag.core.errors import ConflictError, InvalidInputError
from rag.providers.procrastinate_queue import defer
from rag.services.reindex import reindex
from rag.services.store_bytes import StoredBytes, store_bytes

_BAD_IN_NAMES = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class Ingested:
    """The file, and whether it is new; the same bytes twice in a store are one file."""

    file: models.File
    is_new: bool


def ingest_file(
    *,
    store: models.Store,
    name: str,
    content: IO[bytes],
    content_type: str = "document",
    metadata: Mapping[str, Any] | None = None,
) -> Ingested:
    """Keep the bytes, file them once a store and queue their indexing.

    ``content`` is read in pieces. Bytes that are there already, but idle or in error, are queued
    again. Raises LimitError over 100 MB, InvalidInputError for an unusable name, ConflictError
    when the store is gone; what was written is removed then. Not to be called in a transaction.
    """
    name = clean_name(name)
    path = f"stores/{store.pk}/{uuid.uuid4().hex}"
    is_wanted = False
    try:
        stored = store_bytes(path=path, content=content, name=name)
        facts = {"content_type": content_type, "metadata": dict(metadata or {})}
        values = {"content": path, "name": name, **facts}
        taken = _file_once(store, stored, values)
        is_wanted = taken.is_new
        return taken
    except (OperationalError, InterfaceError):
        # The row may be there although nobody could say so; if not, the upkeep removes the bytes.
        is_wanted = True
        raise
    finally:
        if not is_wanted:
            default_storage.delete(path)


def clean_name(name: str) -> str:
    """Return the last part of a file name without control or direction characters."""
    name = unicodedata.normalize("NFC", _BAD_IN_NAMES.sub("", name)).replace("\\", "/")
    last = PurePosixPath(name).name.strip()
    if not last or last in (".", ".."):
        raise InvalidInputError(
            "The file has no usable name.", hint="Give it a name and try again."
        )
    stem, dot, suffix = last.rpartition(".")
    if len(last) > 255 and dot:
        return f"{stem[: 254 - len(suffix[:20])]}.{suffix[:20]}"
    return last[:255]


def _file_once(store: models.Store, stored: StoredBytes, values: dict[str, Any]) -> Ingested:
    try:
        # Durable: the bytes are removed when this fails, which a transaction around it would hide.
        with transaction.atomic(durable=True):
            file = models.File.objects.create(
                store=store, sha256=stored.sha256, size=stored.size,
                status=models.File.Status.PROCESSING, progress={"stage": "waiting"}, **values,
            )  # fmt: skip
            defer("rag.index_file", lock=f"file:{file.pk}", file_id=file.pk)
            return Ingested(file, True)
    except IntegrityError as error:
        if not models.Store.objects.filter(pk=store.pk).exists():
            raise ConflictError(
                "The store “{name}” was deleted meanwhile.", name=store.name
            ) from error
    twin = models.File.objects.light().filter(store=store, sha256=stored.sha256).first()
    if twin is None:
        # It was deleted at this very moment.
        return _file_once(store, stored, values)
    if twin.status in (models.File.Status.IDLE, models.File.Status.ERROR):
        # Whoever brings the bytes again wants them searchable.
        reindex(store=store, file_ids=[twin.pk])
        twin.refresh_from_db(fields=["status", "progress"])
    return Ingested(twin, False)
