"""Links of documents back to their origin, below a web address that a person gave."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from rag.core.errors import InvalidInputError


def check_link_base(base: str) -> None:
    """Raise InvalidInputError for what is no web address; empty is none."""
    parts = urlsplit(base)
    if base and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise InvalidInputError(
            "“{base}” is no web address.",
            hint="Write it like {example}.",
            base=base,
            example="https://files.example.org/manuals/",
        )


def link_to(base: str, path: str) -> str:
    """Return where a document is opened, empty without a base."""
    return f"{base.rstrip('/')}/{quote(path)}" if base else ""
