"""What a file sent along with a question is. In: a path and a name. Out: its kind and MIME type."""

from __future__ import annotations

from pathlib import Path

from rag.core.errors import InvalidInputError
from rag.stages.mime_type import IMAGES, MIME_TYPES, image_kind
from rag.stages.sniff import sniff_kind

DOCUMENTS = {kind: MIME_TYPES[kind] for kind in ("pdf", "txt", "md", "doc", "docx")}


def sniff_media(path: Path, name: str) -> tuple[str, str]:
    """Return kind and MIME type by the content; the name decides between kinds of text only.

    Raises DocumentError for what is empty or broken, InvalidInputError for all other kinds.
    """
    with path.open("rb") as file:
        head = file.read(16)
    if image := image_kind(head):
        return image, IMAGES[image]
    kind = sniff_kind(path, name)
    if kind not in DOCUMENTS:
        raise InvalidInputError(
            "“{name}” is of the kind {kind}, which cannot be sent along with a question.",
            hint="Allowed: {known}.",
            name=name, kind=kind, known=", ".join([*DOCUMENTS, *IMAGES]),
        )  # fmt: skip
    return kind, DOCUMENTS[kind]
