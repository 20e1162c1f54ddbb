"""MIME type of a file by its content; ``data:`` URLs (RFC 2397) and attached files too.

The name decides only where contents look alike: among kinds of text, and among kinds that we do not
read but others do. The standard library's table knows too few, and differs between systems.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path, PurePath
from urllib.parse import unquote_to_bytes

from rag.core.documents import DATA_KINDS
from rag.core.errors import DocumentError, InvalidInputError, LimitError
from rag.stages.detect.sniff import image_kind, sniff_kind

_OOXML = "application/vnd.openxmlformats-officedocument."
MIME_TYPES = {
    "pdf": "application/pdf",
    "doc": "application/msword",
    "docx": f"{_OOXML}wordprocessingml.document",
    "pptx": f"{_OOXML}presentationml.presentation",
    "xlsx": f"{_OOXML}spreadsheetml.sheet",
    "rtf": "application/rtf",
    "odt": "application/vnd.oasis.opendocument.text",
    "wps": "application/vnd.ms-works",
    "ppt": "application/vnd.ms-powerpoint",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "xls": "application/vnd.ms-excel",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "ofd": "application/ofd",
    "msg": "application/vnd.ms-outlook",
    "html": "text/html",
    "epub": "application/epub+zip",
    "eml": "message/rfc822",
    "md": "text/markdown",
    "csv": "text/csv",
    "txt": "text/plain",
    "json": "application/json",
    "jsonl": "text/plain",
    "yaml": "text/plain",
    "xml": "text/xml",
    "ipynb": "application/json",
    "toml": "text/plain",
    "ini": "text/plain",
    "properties": "text/plain",
    "srt": "text/plain",
    "vtt": "text/plain",
    "tiff": "image/tiff",
    "bmp": "image/bmp",
}
# Those that models look at.
IMAGES = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_TEXTS = {
    ".tsv": "text/tab-separated-values",
    ".css": "text/css",
    ".js": "text/javascript",
    ".py": "text/x-python",
}
# What we refuse to read ourselves; others may read it.
_OTHERS = {
    ".rtf": "application/rtf",
    ".xls": "application/vnd.ms-excel",
    ".zip": "application/zip",
    ".ppt": "application/vnd.ms-powerpoint",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
}
_BOMS = (b"\xff\xfe", b"\xfe\xff")


def mime_type_of(path: Path, name: str) -> str:
    """Return the media type; text of an unknown kind is ``text/plain``.

    Raises DocumentError for what is empty, broken or of a kind that nobody can tell.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    suffix = PurePath(name).suffix.lower()
    if (image := image_kind(head)) in IMAGES:
        return IMAGES[image]
    try:
        kind = sniff_kind(path, name)
    except DocumentError:
        if suffix in _OTHERS:
            return _OTHERS[suffix]
        raise
    is_text = kind == "txt" or kind in DATA_KINDS
    if not is_text and suffix not in _TEXTS:
        return MIME_TYPES[kind]
    if b"\0" in head and is_text and not head.startswith(_BOMS):
        raise DocumentError(
            "“{name}” is neither text nor a kind of document that is known.",
            hint="Save it as PDF, Word or text.",
            name=name,
        )
    if kind in ("txt", "csv", "html"):
        return _TEXTS.get(suffix, MIME_TYPES["txt"])
    return MIME_TYPES[kind]


def read_data_url(url: str, *, name: str, max_bytes: int) -> bytes:
    """Return the bytes, base64 or percent-encoded; ``name`` is for the errors.

    Raises InvalidInputError for what cannot be read, LimitError for more than ``max_bytes``.
    """
    head, comma, body = url.partition(",")
    if not comma or not head.lower().startswith("data:"):
        raise InvalidInputError("The data address of “{name}” has no content.", name=name)
    try:
        raw = unquote_to_bytes(body)
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            "The text “{name}” holds half a character.", hint="Enter it again.", name=name
        ) from error
    if head.lower().rstrip().endswith(";base64"):
        packed = raw.translate(None, b" \t\r\n").replace(b"-", b"+").replace(b"_", b"/")
        try:
            raw = base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
        except binascii.Error as error:
            raise InvalidInputError(
                "The data address of “{name}” is no base64: {reason}.", name=name, reason=error
            ) from error
    if len(raw) > max_bytes:
        raise LimitError(
            "“{name}” is larger than {limit} MB.",
            hint="Split it and upload the parts.",
            name=name,
            limit=max_bytes // 1024**2,
        )
    return raw


DOCUMENTS = {kind: MIME_TYPES[kind] for kind in ("pdf", "txt", "md", "doc", "docx")}


def sniff_media(path: Path, name: str) -> tuple[str, str]:
    """Return kind and MIME type by the content; the name decides between kinds of text only.

    Raises DocumentError for what is empty or broken, InvalidInputError for all other kinds.
    """
    with path.open("rb") as file:
        head = file.read(16)
    if (image := image_kind(head)) in IMAGES:
        return image, IMAGES[image]
    kind = sniff_kind(path, name)
    if kind not in DOCUMENTS:
        raise InvalidInputError(
            "“{name}” is of the kind {kind}, which cannot be sent along with a question.",
            hint="Allowed: {known}.",
            name=name,
            kind=kind,
            known=", ".join([*DOCUMENTS, *IMAGES]),
        )
    return kind, DOCUMENTS[kind]
