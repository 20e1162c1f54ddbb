"""Error codes: the stable identifier that programs get for each class of error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag.core import errors
from rag.core.errors import RAGError

# What passes by itself, such as a budget that begins anew.
RATE_LIMITED = "rate_limited"
_OF_CLASS: dict[type[RAGError], str] = {
    errors.UnknownNameError: "unknown_name",
    errors.InvalidInputError: "invalid_input",
    errors.NotFoundError: "not_found",
    errors.ForbiddenError: "forbidden",
    errors.ConflictError: "conflict",
    errors.LimitError: "too_large",
    errors.ConfigurationError: "configuration",
    errors.ProviderTimeoutError: "provider_timeout",
    errors.ProviderError: "provider",
    errors.CancelledError: "cancelled",
}


def error_code(error: RAGError) -> str:
    """Return the word; the same as in answers of the API that fail before they begin."""
    if isinstance(error, errors.LimitError) and "retry_after_s" in error.params:
        return RATE_LIMITED
    return next((_OF_CLASS[cls] for cls in type(error).__mro__ if cls in _OF_CLASS), "error")


def error_from_event(data: Mapping[str, Any]) -> RAGError:
    """Return the error that an ``error`` event tells, of the class that its code stands for."""
    stored, code = data.get("error") or {}, data.get("code")
    kind = next((cls for cls, word in _OF_CLASS.items() if word == code), RAGError)
    kind = errors.LimitError if code == RATE_LIMITED else kind
    # An unknown name tells its message as it was made.
    kind = errors.InvalidInputError if kind is errors.UnknownNameError else kind
    kind = errors.ProviderError if code == "interrupted" else kind
    return kind(stored.get("message", ""), hint=stored.get("hint", ""), **stored.get("params", {}))
