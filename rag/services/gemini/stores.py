"""Gemini File Search client (one a process); its stores and documents kept equal to our rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from django.utils import timezone

from rag import models
from rag.conf import conf
from rag.core.errors import DocumentError, NotFoundError, RAGError
from rag.core.file_search import FileSearch, RemoteDocument, RemoteStore
from rag.providers.postgres.db.connections import release_db
from rag.services.wiring import registry as wiring


def gemini_file_search() -> FileSearch:
    """Return Gemini's stores; raise ConfigurationError when GEMINI_API_KEY is not set."""
    settings = conf()
    return _gemini(
        settings.gemini_model,
        settings.gemini_api_key,
        settings.gemini_base_url,
        settings.gemini_api_version,
        settings.timeout_s,
        settings.gemini_max_file_mb,
    )


@lru_cache(maxsize=4)
def _gemini(
    model: str, key: str, base_url: str, api_version: str, timeout_s: float, max_file_mb: int
) -> FileSearch:
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.gemini.attachments import AttachmentOptions
    from rag.providers.gemini.client import GeminiEndpoint
    from rag.providers.gemini.file_search import GeminiFileSearch, GeminiFileSearchOptions

    endpoint = GeminiEndpoint(key, base_url, api_version)
    # Its models refuse Office files, so these are read here.
    sending = AttachmentOptions(parser=wiring.parser(), max_file_mb=max_file_mb)
    options = GeminiFileSearchOptions(timeout_s=timeout_s, sending=sending)
    return GeminiFileSearch(model, endpoint, options=options)


_log = logging.getLogger(__name__)


@contextmanager
def creating_remote_store(*, store: models.Store) -> Iterator[None]:
    """Make the store at Gemini for the block that saves its row; what fails there undoes it."""
    backend = gemini_file_search()
    release_db()
    made = backend.create_store(store.display_name)
    store.resource_name = made.name
    try:
        yield
    except BaseException:
        # Whatever keeps the row from being saved: what no row names, nobody would ever delete.
        try:
            backend.delete_store(made.name)
        except RAGError as error:
            _log.error("%s is left at Gemini without a store here: %s", made.name, error)
        raise


def delete_remote_store(*, store: models.Store) -> None:
    """Delete the store at Gemini; what it says against it is kept on the row and raised."""
    release_db()
    try:
        gemini_file_search().delete_store(store.resource_name)
    except RAGError as error:
        save_store_error(store=store, error=error)
        raise


def save_store_error(*, store: models.Store, error: RAGError) -> None:
    """Put on the row what Gemini says against it."""
    gone = {"is_gone": True} if isinstance(error, NotFoundError) else {}
    store.remote = {**store.remote, **gone, "error": error.as_dict()}
    store.synced_at = timezone.now()
    models.Store.objects.filter(pk=store.pk).update(remote=store.remote, synced_at=store.synced_at)


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
        _log.warning("Gemini could not take file %s in: %s", file.pk, document.error)
        status = STATES.ERROR
        error = DocumentError(
            "Gemini could not take “{name}” in.",
            hint="Save it anew and upload that.",
            name=file.name,
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
