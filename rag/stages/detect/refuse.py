"""Refusals that several readers share. In: a file's name. Out: an error to raise."""

from __future__ import annotations

from rag.core.errors import DocumentError


def damaged(name: str) -> DocumentError:
    """Return the refusal of a file that is broken."""
    return DocumentError(
        "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
    )


def mistaken(name: str) -> DocumentError:
    """Return the refusal of an office file whose parts do not fit together."""
    return DocumentError(
        "“{name}” is damaged or not what its content claims.",
        hint="Open it, save it anew and upload that.",
        name=name,
    )


def locked(name: str) -> DocumentError:
    """Return the refusal of a file that only a password opens."""
    return DocumentError(
        "“{name}” needs a password.", hint="Remove the password and upload it again.", name=name
    )


def protected(name: str) -> DocumentError:
    """Return the refusal of a file that something else than a password locks."""
    return DocumentError(
        "“{name}” is protected in a way that cannot be opened.",
        hint="Remove the protection and upload it again.",
        name=name,
    )
