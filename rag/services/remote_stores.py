"""Stores at Gemini beside our rows of them. In: a row. Out: both alike, or an error that says why.

Nothing here may run in a transaction: Gemini would have done what a rollback takes back here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.utils import timezone

from rag import models
from rag.core.errors import NotFoundError, RAGError
from rag.providers.postgres.connections import release_db
from rag.services.file_search import gemini_file_search

_log = logging.getLogger(__name__)


@contextmanager
def making_remote(*, store: models.Store) -> Iterator[None]:
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


def remove_remote(*, store: models.Store) -> None:
    """Delete the store at Gemini; what it says against it is kept on the row and raised."""
    release_db()
    try:
        gemini_file_search().delete_store(store.resource_name)
    except RAGError as error:
        keep_error(store=store, error=error)
        raise


def keep_error(*, store: models.Store, error: RAGError) -> None:
    """Put on the row what Gemini says against it."""
    gone = {"is_gone": True} if isinstance(error, NotFoundError) else {}
    store.remote = {**store.remote, **gone, "error": error.as_dict()}
    store.synced_at = timezone.now()
    models.Store.objects.filter(pk=store.pk).update(remote=store.remote, synced_at=store.synced_at)
