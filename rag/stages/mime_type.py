"""What a file is called on the web. In: a path and a name. Out: its media type, by content.

The name decides only where contents look alike: among kinds of text, and among kinds that we do not
read but others do. The standard library's table knows too few, and differs between systems.
"""

from __future__ import annotations

from pathlib import Path, PurePath

from rag.core.errors import DocumentError
from rag.stages.sniff import sniff_kind

_OOXML = "application/vnd.openxmlformats-officedocument."
_KINDS = {
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
}
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
_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
           (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"))  # fmt: skip
_BOMS = (b"\xff\xfe", b"\xfe\xff")


def mime_type_of(path: Path, name: str) -> str:
    """Return the media type; text of an unknown kind is ``text/plain``.

    Raises DocumentError for what is empty, broken or of a kind that nobody can tell.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    suffix = PurePath(name).suffix.lower()
    if image := _image_type(head):
        return image
    try:
        kind = sniff_kind(path, name)
    except DocumentError:
        if suffix in _OTHERS:
            return _OTHERS[suffix]
        raise
    if kind in _KINDS and suffix not in _TEXTS:
        return _KINDS[kind]
    if b"\0" in head and kind not in _KINDS and not head.startswith(_BOMS):
        raise DocumentError(
            "“{name}” is neither text nor a kind of document that is known.",
            hint="Save it as PDF, Word or text.", name=name,
        )  # fmt: skip
    return _TEXTS.get(suffix, "text/plain") if kind in ("txt", "csv", "html") else _KINDS[kind]


def _image_type(head: bytes) -> str:
    for mark, mime_type in _IMAGES:
        if head.startswith(mark):
            return mime_type
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""
