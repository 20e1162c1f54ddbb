"""Refusals shared by readers: errors for encrypted, empty and damaged files."""

from __future__ import annotations

from rag.core.documents import Notice
from rag.core.errors import DocumentError

# Of files and pages whose words are in pictures.
NEEDS_OCR = Notice(
    "Turn on text recognition (OCR) in the settings of its store and index it again; "
    "the workers need the package: pip install {package}.",
    package="rapidocr==3.10.0",
)


def damaged_file(name: str) -> DocumentError:
    """Return the refusal of a file that is broken."""
    return DocumentError(
        "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
    )


def inconsistent_file(name: str) -> DocumentError:
    """Return the refusal of an office file whose parts do not fit together."""
    return DocumentError(
        "“{name}” is damaged or not what its content claims.",
        hint="Open it, save it anew and upload that.",
        name=name,
    )


def password_protected_file(name: str) -> DocumentError:
    """Return the refusal of a file that only a password opens."""
    return DocumentError(
        "“{name}” needs a password.", hint="Remove the password and upload it again.", name=name
    )


def rights_protected_file(name: str) -> DocumentError:
    """Return the refusal of a file that something else than a password locks."""
    return DocumentError(
        "“{name}” is protected in a way that cannot be opened.",
        hint="Remove the protection and upload it again.",
        name=name,
    )
