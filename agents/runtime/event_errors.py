"""Error of an event: the ``error`` event of a run or an answer as the exception that it tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag.core import errors
from rag.core.errors import RAGError

_OF_CODE = {
    cls.code: cls
    for cls in (
        errors.InvalidInputError,
        errors.NotFoundError,
        errors.ForbiddenError,
        errors.ConflictError,
        errors.LimitError,
        errors.DocumentError,
        errors.ConfigurationError,
        errors.ProviderTimeoutError,
        errors.ProviderError,
        errors.CancelledError,
    )
} | {
    "rate_limited": errors.LimitError,
    "unavailable": errors.ConfigurationError,
    # An unknown name tells its message as it was made.
    "unknown_name": errors.InvalidInputError,
    "interrupted": errors.ProviderError,
}


def error_from_event(data: Mapping[str, Any]) -> RAGError:
    """Return the error that an ``error`` event tells, of the class that its code stands for."""
    kind = _OF_CODE.get(data.get("code") or "", RAGError)
    return kind.from_dict(data.get("error") or {})
