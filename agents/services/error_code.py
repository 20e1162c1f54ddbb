"""A word for programs for each kind of error. In: an error. Out: the word."""

from __future__ import annotations

from rag.core import errors
from rag.core.errors import RAGError

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
    return next((_OF_CLASS[cls] for cls in type(error).__mro__ if cls in _OF_CLASS), "error")
