"""Outage: whether an error came of a database that cannot be reached, as what people are told."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError

from rag.core.disk_full import is_disk_full
from rag.core.errors import ConfigurationError, RAGError

DATABASE_AWAY = ConfigurationError(
    "The database cannot be reached at this moment.",
    hint="Try again in a few seconds.",
    retry_after_s=5,
)


def outage_of(error: BaseException | None) -> RAGError | None:
    """Return what an error means that the database's absence caused, None for any other.

    The queue and a transaction that has lost its connection raise errors of their own from it; an
    error of ours that names another cause is taken at its word.
    """
    if is_disk_full(error):
        return None
    while error is not None:
        if isinstance(error, (OperationalError, InterfaceError)):
            return DATABASE_AWAY
        if isinstance(error, RAGError):
            return DATABASE_AWAY if error.code == DATABASE_AWAY.code else None
        error = error.__cause__
    return None
