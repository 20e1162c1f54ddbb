"""Gemini File Search client (one a process); its stores created and deleted with our rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from django.utils import timezone

from rag import models
from rag.conf import conf
from rag.core.errors import NotFoundError, RAGError
from rag.core.file_search import FileSearch
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
    from rag.providers.gemini.attach import Sending
    from rag.providers.gemini.client import GeminiEndpoint
    from rag.providers.gemini.file_search import GeminiFileSearch, GeminiFileSearchOptions

    endpoint = GeminiEndpoint(key, base_url, api_version)
    # Its models refuse Office files, so these are read here.
    sending = Sending(parser=wiring.parser(), max_file_mb=max_file_mb)
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
