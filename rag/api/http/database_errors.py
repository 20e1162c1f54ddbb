"""What the database says against a request. In: its error. Out: one of ours, None for faults.

Two who change the same row at once, and values that no check has met, come as far as this.
"""

from __future__ import annotations

import logging

from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, DataError, IntegrityError

from rag.core.errors import ConflictError, InvalidInputError, RAGError

_log = logging.getLogger(__name__)


def database_fault(error: Exception) -> RAGError | None:
    """Return what an error of Django's database layer means to whoever asked; it is logged."""
    told: RAGError | None = None
    if isinstance(error, DataError):
        told = InvalidInputError(
            "The request holds a value that cannot be stored.",
            hint="Look for control characters, and for numbers and dates that are out of range.",
        )
    elif isinstance(error, (IntegrityError, ObjectDoesNotExist)) or type(error) is DatabaseError:
        # Django raises the bare class for a row that was deleted before it could be saved.
        told = ConflictError(
            "Somebody else changed or deleted this at the same moment.",
            hint="Look at it again, and repeat what is still wanted.",
        )
    if told is not None:
        _log.warning("A request met the database: %s", type(error).__name__, exc_info=error)
    return told
