"""Localized sentences of errors, raised or stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from rag.core.errors import RAGError


def error_sentence(error: RAGError | Mapping[str, Any] | None) -> str:
    """Return an error, raised or stored as JSON, in the current language; none is empty.

    The kind of an unknown name is a word of ours and is translated too.
    """
    if not error:
        return ""
    if not isinstance(error, RAGError):
        error = RAGError.from_dict(error)
    if kind := error.params.get("kind"):
        params = {**error.params, "kind": gettext(str(kind))}
        error = RAGError.from_dict({"message": error.message, "hint": error.hint, "params": params})
    return error.localized(gettext)


def warning_sentence(warning: str | Mapping[str, Any]) -> str:
    """Return a file's warning in the current language."""
    return gettext(warning) if isinstance(warning, str) else error_sentence(warning)
