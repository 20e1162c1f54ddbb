"""Upload of one document into a store of any backend (local or Gemini), with a deadline."""

from __future__ import annotations

import time

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import (
    CancelledError,
    DocumentError,
    ForbiddenError,
    NotFoundError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.file_search import RemoteDocument, Upload
from rag.providers.postgres.db.connections import release_db
from rag.services.files.delete import delete_files
from rag.services.files.upload import FileAttributes, clean_name, create_file
from rag.services.gemini import upload_to_gemini

STATES = models.File.Status
POLL_S = 0.2
_STATE = {STATES.COMPLETED: "active", STATES.ERROR: "failed"}


def upload_document(
    *, scope: Scope, store: models.Store, upload: Upload, deadline: Deadline, is_waiting: bool
) -> RemoteDocument:
    """Return the document: found by searches, or pending where it is ours and nobody waits.

    To Gemini it is sent here and now; in a store of ours the queue indexes it, and ``is_waiting``
    waits for that. A cancelled call leaves no file behind, a failed one keeps it with the reason.
    Raises ForbiddenError to who may not edit the store, LimitError, DocumentError, and at the
    deadline.
    """
    deadline.check()
    if not models.Store.objects.editable(scope).filter(pk=store.pk).exists():
        raise ForbiddenError("You may read “{name}”, not change it.", name=store.name)
    rule = None if upload.rule == store.chunk_rule else upload.rule
    attributes = FileAttributes(metadata=upload.metadata, rule=rule, is_claimed=store.is_remote)
    name = clean_name(upload.display_name)
    release_db()
    with upload.path.open("rb") as content:
        uploaded = create_file(store=store, name=name, content=content, attributes=attributes)
    try:
        deadline.check()
        if uploaded.is_due:
            upload_to_gemini(file_id=uploaded.file.pk, deadline=deadline)
        elif is_waiting:
            _wait(uploaded.file.pk, upload, deadline)
    except CancelledError:
        if uploaded.is_new:
            delete_files(scope=scope, file_ids=[uploaded.file.pk])
        raise
    file = models.File.objects.light().select_related("store").filter(pk=uploaded.file.pk).first()
    if file is None:
        raise NotFoundError("“{name}” was deleted meanwhile.", name=name)
    if is_waiting and file.error:
        failure = RAGError.from_dict(file.error)
        raise DocumentError(failure.message, hint=failure.hint, **failure.params)
    return as_remote_document(file)


def as_remote_document(file: models.File) -> RemoteDocument:
    """Return a file as every backend tells of its documents."""
    error = str(RAGError.from_dict(file.error)) if file.error else ""
    return RemoteDocument(
        name=file.resource_name,
        display_name=file.name,
        size_bytes=file.size,
        state=_STATE.get(STATES(file.status), "pending"),
        error=error,
        metadata=file.metadata,
    )


def chunk_rule_for(
    store: models.Store, max_tokens: int | None, overlap_tokens: int | None
) -> ChunkRule:
    """Return how a document is cut: what was asked for, else what the store has.

    Raises InvalidInputError out of range.
    """
    own = store.chunk_rule
    return ChunkRule(
        own.max_tokens if max_tokens is None else max_tokens,
        own.overlap_tokens if overlap_tokens is None else overlap_tokens,
    )


def _wait(file_id: int, upload: Upload, deadline: Deadline) -> None:
    busy = (STATES.UPLOADING, STATES.PROCESSING)
    while True:
        row = models.File.objects.filter(pk=file_id).values_list("status", "progress").first()
        if row is None or row[0] not in busy:
            return
        if upload.on_progress is not None:
            upload.on_progress(float(row[1].get("share") or 0))
        release_db()
        _check_wait(upload, deadline)
        time.sleep(POLL_S)


def _check_wait(upload: Upload, deadline: Deadline) -> None:
    try:
        deadline.check()
    except ProviderTimeoutError:
        raise ProviderTimeoutError(
            "“{name}” could not be found within {seconds} s.",
            hint="Files wait in the queue until they are indexed: see that a worker runs.",
            name=upload.display_name,
            seconds=f"{deadline.timeout_s:g}",
        ) from None
