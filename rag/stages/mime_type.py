"""What a file is called on the web. In: a path and a name. Out: its media type, by content.

The name decides only where contents look alike: among kinds of text, and among kinds that we do not
read but others do. The standard library's table knows too few, and differs between systems.
"""

from __future__ import annotations

from pathlib import Path, PurePath

from rag.core.errors import DocumentError
from rag.stages.sniff import sniff_kind

_OOXML = "application/vnd.openxmlformats-officedocument."
MIME_TYPES = {
    "pdf": "application/pdf",
    "doc": "application/msword",
    "docx": f"{_OOXML}wordprocessingml.document",
    "pptx": f"{_OOXML}presentationml.presentation",
    "xlsx": f"{_OOXML}spreadsheetml.sheet",
    "html": "text/html",
    "epub": "application/epub+zip",
    "eml": "message/rfc822",
    "md": "text/markdown",
    "csv": "text/csv",
    "txt": "text/plain",
}
IMAGES = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_TEXTS = {
    ".tsv": "text/tab-separated-values", ".json": "application/json", ".ipynb": "application/json",
    ".xml": "text/xml", ".css": "text/css", ".js": "text/javascript", ".py": "text/x-python",
}  # fmt: skip
# What we refuse to read ourselves; others may read it.
_OTHERS = {
    ".rtf": "application/rtf", ".xls": "application/vnd.ms-excel", ".zip": "application/zip",
    ".ppt": "application/vnd.ms-powerpoint",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
}  # fmt: skip
_MARKS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"GIF87a", "gif"),
          (b"GIF89a", "gif"))  # fmt: skip
_BOMS = (b"\xff\xfe", b"\xfe\xff")


def mime_type_of(path: Path, name: str) -> str:
    """Return the media type; text of an unknown kind is ``text/plain``.

    Raises DocumentError for what is empty, broken or of a kind that nobody can tell.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    suffix = PurePath(name).suffix.lower()
    if image := image_kind(head):
        return IMAGES[image]
    try:
        kind = sniff_kind(path, name)
    except DocumentError:
        if suffix in _OTHERS:
            return _OTHERS[suffix]
        raise
    if kind != "txt" and suffix not in _TEXTS:
        return MIME_TYPES[kind]
    if b"\0" in head and kind == "txt" and not head.startswith(_BOMS):
        raise DocumentError(
            "“{name}” is neither text nor a kind of document that is known.",
            hint="Save it as PDF, Word or text.", name=name,
        )  # fmt: skip
    if kind in ("txt", "csv", "html"):
        return _TEXTS.get(suffix, MIME_TYPES["txt"])
    return MIME_TYPES[kind]


def image_kind(head: bytes) -> str:
    """Return png, jpg, gif or webp by a file's first bytes, empty for all else."""
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    return "webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""
