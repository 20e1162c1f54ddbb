"""What a file sent along with a question is. In: a path and a name. Out: its kind and MIME type."""

from __future__ import annotations

from pathlib import Path

from rag.core.errors import InvalidInputError
from rag.stages.sniff import sniff_kind

DOCUMENTS = {
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
IMAGES = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}


def sniff_media(path: Path, name: str) -> tuple[str, str]:
    """Return kind and MIME type by the content; the name decides between kinds of text only.

    Raises DocumentError for what is empty or broken, InvalidInputError for all other kinds.
    """
    with path.open("rb") as file:
        head = file.read(16)
    image = _image_kind(head)
    if image:
        return image, IMAGES[image]
    kind = sniff_kind(path, name)
    if kind not in DOCUMENTS:
        raise InvalidInputError(
            "“{name}” is of the kind {kind}, which cannot be sent along with a question.",
            hint="Allowed: {known}.",
            name=name, kind=kind, known=", ".join([*DOCUMENTS, *IMAGES]),
        )  # fmt: skip
    return kind, DOCUMENTS[kind]


def _image_kind(head: bytes) -> str:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    return "webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""
