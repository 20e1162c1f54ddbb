"""Synchronisation of our file rows with the documents of a store at Gemini."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from rag import models
from rag.core.errors import DocumentError, NotFoundError, RAGError
from rag.core.file_search import RemoteDocument, RemoteStore
from rag.providers.postgres.db.connections import release_db
from rag.services.gemini.stores import gemini_file_search, save_store_error

STATES = models.File.Status


@dataclass(frozen=True, slots=True)
class RemoteSyncResult:
    """What a comparison found: documents at Gemini by state, and where the two sides differ."""

    n_active: int
    n_pending: int
    n_failed: int
    n_lost: int
    n_unknown: int


def sync_store(*, store: models.Store) -> RemoteSyncResult:
    """Bring a store's counts and its files' states to what Gemini says.

    A file whose document is gone or failed there is in error then. Raises NotFoundError when the
    store is gone, and what Gemini answers; the row keeps the reason.
    """
    release_db()
    try:
        backend = gemini_file_search()
        remote = backend.get_store(store.resource_name)
        documents = {one.name: one for one in backend.list_documents(store.resource_name)}
    except RAGError as error:
        save_store_error(store=store, error=error)
        raise
    rows = models.File.objects.light().filter(store=store).exclude(remote_name="")
    n_lost = sum(_sync_row(file, documents.pop(file.remote_name, None)) for file in rows)
    compared = RemoteSyncResult(
        remote.n_active or 0, remote.n_pending or 0, remote.n_failed or 0, n_lost, len(documents)
    )
    _save_counts(store, remote, compared)
    return compared


def _sync_row(file: models.File, document: RemoteDocument | None) -> bool:
    """Put a document's state on its file; return whether the document is gone."""
    if file.status == STATES.UPLOADING:
        return False
    status: str = STATES.COMPLETED
    error: RAGError | None = None
    if document is None:
        status = STATES.ERROR
        error = NotFoundError(
            "“{name}” is no longer at Gemini.",
            hint="Index it again to send it anew.",
            name=file.name,
        )
    elif document.state == "failed":
        status = STATES.ERROR
        error = DocumentError(
            "Gemini could not take “{name}” in: {reason}.",
            hint="Save it anew and upload that.",
            name=file.name,
            reason=document.error or document.state,
        )
    elif document.state == "pending":
        return False
    # Whoever began to send it anew meanwhile knows better.
    rows = models.File.objects.filter(pk=file.pk, status=file.status, remote_name=file.remote_name)
    rows.update(status=status, error=error.as_dict() if error else None, progress={})
    return document is None


def _save_counts(store: models.Store, remote: RemoteStore, compared: RemoteSyncResult) -> None:
    store.remote = {
        "active": compared.n_active,
        "pending": compared.n_pending,
        "failed": compared.n_failed,
        "lost": compared.n_lost,
        "unknown": compared.n_unknown,
        "size_bytes": remote.size_bytes,
    }
    store.synced_at = timezone.now()
    store.save(update_fields=["remote", "synced_at"])
