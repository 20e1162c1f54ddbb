"""Database errors as API errors: conflicts and values that cannot be stored; None for faults."""

from __future__ import annotations

import logging

from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, DataError, IntegrityError

from rag.core.errors import ConflictError, InvalidInputError, RAGError

_log = logging.getLogger(__name__)


def translate_database_error(error: Exception) -> RAGError | None:
    """Return what an error of Django's database layer means to whoever asked; it is logged."""
    fault: RAGError | None = None
    if isinstance(error, DataError):
        fault = InvalidInputError(
            "The request holds a value that cannot be stored.",
            hint="Look for control characters, and for numbers and dates that are out of range.",
        )
    elif isinstance(error, (IntegrityError, ObjectDoesNotExist)) or type(error) is DatabaseError:
        # Django raises the bare class for a row that was deleted before it could be saved.
        fault = ConflictError(
            "Somebody else changed or deleted this at the same moment.",
            hint="Look at it again, and repeat what is still wanted.",
        )
    if fault is not None:
        _log.warning("A request met the database: %s", type(error).__name__, exc_info=error)
    return fault
