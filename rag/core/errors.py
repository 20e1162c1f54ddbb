"""Errors: the one tree under ``RAGError``; each says what is wrong, where, and what to do.

A message is a template: edges translate it with ``localized`` before the values are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self


class RAGError(Exception):
    """Root of all errors that a caller may show to a person.

    ``message`` says what is wrong and ``hint`` what to do; both are ``str.format`` templates
    filled from ``params``. ``code`` is the stable word that programs get, over HTTP and in events.
    ``detail`` is for the log alone, such as the words of a service that was called.
    """

    code = "error"
    # The code of what is over after the seconds of the parameter ``retry_after_s``.
    code_for_now = ""

    def __init__(self, message: str, *, hint: str = "", detail: str = "", **params: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail
        self.params = params
        if self.code_for_now and "retry_after_s" in params:
            self.code = self.code_for_now

    def localized(self, translate: Callable[[str], str]) -> str:
        """Return the whole sentence, each template passed through ``translate`` first."""
        parts = [
            translate(part).format(**self.params) for part in (self.message, self.hint) if part
        ]
        return " ".join(parts)

    def __str__(self) -> str:
        return self.localized(lambda text: text)

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form that ``from_dict`` on an edge can translate later."""
        params = {key: str(value) for key, value in self.params.items()}
        return {"message": self.message, "hint": self.hint, "params": params}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return the error that ``as_dict`` was made from, as one of this class."""
        params = stored.get("params", {})
        return cls(stored.get("message", ""), hint=stored.get("hint", ""), **params)


class InvalidInputError(RAGError):
    """A value is out of range or malformed (HTTP 400)."""

    code = "invalid_input"


class UnknownNameError(InvalidInputError):
    """A name that nobody knows; the message lists the known ones."""

    code = "unknown_name"

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            "Unknown {kind} “{name}”.", hint="Known: {known}.", kind=kind, name=name, known=listed
        )


class NotFoundError(RAGError):
    """A thing that does not exist or that the caller may not see (HTTP 404)."""

    code = "not_found"


class ForbiddenError(RAGError):
    """The caller sees the thing but may not do this to it (HTTP 403)."""

    code = "forbidden"


class ConflictError(RAGError):
    """The thing changed meanwhile or exists already (HTTP 409)."""

    code = "conflict"

    @classmethod
    def name_taken(cls, name: object) -> Self:
        """Return the error for a name that is taken, whether or not the caller may see by what."""
        return cls("The name “{name}” cannot be used.", hint="Choose another one.", name=name)


class LimitError(RAGError):
    """A size is too large (HTTP 413), or a rate or budget is used up until later (HTTP 429)."""

    code, code_for_now = "too_large", "rate_limited"


class DocumentError(RAGError):
    """A file cannot be read; its bytes are kept (HTTP 422)."""

    code = "unreadable_document"


class ConfigurationError(RAGError):
    """The installation lacks something (HTTP 500), or its database for a while (HTTP 503)."""

    code, code_for_now = "configuration", "unavailable"


class ProviderError(RAGError):
    """A model or service behind a port failed (HTTP 502)."""

    code = "provider"


class ProviderTimeoutError(ProviderError):
    """A model or service behind a port did not answer in time (HTTP 504)."""

    code = "provider_timeout"


class CancelledError(RAGError):
    """Nobody waits for the answer any more (HTTP 499)."""

    code = "cancelled"
