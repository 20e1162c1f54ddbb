"""Replace a file's bytes, or its text encoding, by a next revision that is queued for indexing."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import IO, Any

from django.core.files.storage import default_storage
from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError
from rag.core.plugins import PLUGINS
from rag.services.files.requeue import queue_file, requeue_files
from rag.services.files.upload import FileUpload, StoredBytes, store_bytes
from rag.stages.detect.decode import encoding_name

_WRITTEN = (
    "content",
    "sha256",
    "size",
    "status",
    "progress",
    "error",
    "updated_at",
    "encoding_override",
)


def set_encoding(*, scope: Scope, file: models.File, encoding: str) -> bool:
    """Keep the encoding to read a text by, empty to tell it from the bytes; queue if it is new.

    Return whether it is. The present chunks serve until the file is read. Raises InvalidInputError
    for an unknown encoding and ForbiddenError to who may not edit the store.
    """
    codec = encoding_name(encoding)
    file.require_editable(scope)
    rows = models.File.objects.filter(pk=file.pk).exclude(encoding_override=codec)
    if not rows.update(encoding_override=codec):
        return False
    file.encoding_override = codec
    requeue_files(store=file.store, file_ids=[file.pk])
    return True


def set_splitter(*, scope: Scope, file: models.File, splitter: str) -> bool:
    """Keep the chunking template of one file, empty for its store's; queue it if it is new.

    Return whether it is. The present chunks serve until the text that was read is cut anew. Raises
    UnknownNameError for an unknown template and ForbiddenError to who may not edit the store.
    """
    if splitter:
        PLUGINS.get("splitter", splitter)
    file.require_editable(scope)
    rows = models.File.objects.filter(pk=file.pk).exclude(splitter=splitter)
    if not rows.update(splitter=splitter):
        return False
    file.splitter = splitter
    requeue_files(store=file.store, file_ids=[file.pk], from_text=True)
    return True


def find_file_by_name(*, store: models.Store, name: str) -> models.File | None:
    """Return the store's file of this name, None when there is none.

    Raises ConflictError when several bear it.
    """
    found = list(models.File.objects.light().filter(store=store, name=name)[:2])
    if len(found) > 1:
        raise ConflictError(
            "Several files of the store are called “{name}”.",
            hint="Delete those that are not wanted, or upload without replacing.",
            name=name,
        )
    return found[0] if found else None


def replace_file(
    *, scope: Scope, file: models.File, content: IO[bytes], changes: Mapping[str, Any]
) -> FileUpload:
    """Give ``file`` the bytes of ``content`` and queue their indexing; the old bytes are removed.

    ``changes`` may hold a new ``content_type`` and ``metadata``. The same bytes are no change:
    ``is_new`` False. Raises ForbiddenError, LimitError over 100 MB, and ConflictError when the
    file is gone or its store has these bytes under another name. Not to be called in a
    transaction.
    """
    file.require_editable(scope)
    path = f"stores/{file.store_id}/{uuid.uuid4().hex}"
    is_wanted = False
    try:
        stored = store_bytes(path=path, content=content, name=file.name)
        is_wanted = _swap_bytes(file, path, stored, changes)
        return FileUpload(file, is_wanted)
    except (OperationalError, InterfaceError):
        # The row may name the bytes although nobody could say so; if not, the upkeep removes them.
        is_wanted = True
        raise
    finally:
        if not is_wanted:
            default_storage.delete(path)


def _swap_bytes(
    file: models.File, path: str, stored: StoredBytes, changes: Mapping[str, Any]
) -> bool:
    try:
        with transaction.atomic(durable=True):
            row = models.File.objects.select_for_update().light().filter(pk=file.pk).first()
            if row is None:
                raise ConflictError("“{name}” was deleted meanwhile.", name=file.name)
            is_new = row.sha256 != stored.sha256
            states = models.File.Status
            if is_new:
                transaction.on_commit(partial(default_storage.delete, str(row.content.name)))
                row.content.name, row.sha256, row.size = path, stored.sha256, stored.size
                # The encoding that was given was that of the old bytes.
                row.encoding_override = ""
            if is_new or row.status in (states.IDLE, states.ERROR):
                # The row first: see reindex.
                row.status, row.progress = states.PROCESSING, {"stage": "waiting"}
                row.error = None
            for field, value in changes.items():
                setattr(row, field, value)
            row.save(update_fields=[*_WRITTEN, *changes])
            if row.status == states.PROCESSING:
                queue_file(file_id=row.pk, name=row.name, size=row.size)
    except IntegrityError as error:
        twin = models.File.objects.filter(store=file.store_id, sha256=stored.sha256)
        raise ConflictError(
            "The store has these bytes already, as “{name}”.",
            name=twin.values_list("name", flat=True).first() or file.name,
        ) from error
    file.refresh_from_db(fields=[*_WRITTEN, *changes])
    return is_new
