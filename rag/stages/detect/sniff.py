"""File type detection by content: a kind, or a refusal that says what to do.

The name decides only between kinds of text, which look alike.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from rag.core.errors import DocumentError
from rag.stages.detect.sniff_ole import ole_kind
from rag.stages.detect.sniff_zip import zip_kind

HEAD = 64 * 1024
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*")
_ARCHIVES = (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
_BLANK = b" \t\r\n\f\v"
# Word 2, which is no OLE file.
_OLD_WORD = (b"\xdb\xa5-\x00", b"\x9b\xa5")
_HTML = re.compile(
    # A comment ends at its first mark: read in several ways, thirty of them would take hours.
    rb"(?:<\?xml[^>]*>|<!--(?:(?!-->).)*-->|\s)*<(?:!doctype\s+html|html|head|body)[\s>]",
    re.I | re.S,
)
_WORD_XML = re.compile(rb"progid=.Word\.Document|<w:wordDocument|<pkg:package")
_HEADERS = re.compile(rb"(?:[!-9;-~]+:[^\n]*(?:\n[ \t][^\n]*)*(?:\n|\Z))+")
_MAIL = re.compile(
    rb"^(from|to|cc|subject|date|received|mime-version|message-id|return-path|x-[\w-]+):",
    re.I | re.M,
)
_MAIL_PROOF = re.compile(rb"^(received|mime-version|message-id|return-path):", re.I | re.M)
_TEXT_KINDS = {".md": "md", ".markdown": "md", ".csv": "csv", ".tsv": "csv", ".txt": "txt"}
_HTML_SUFFIXES = (".html", ".htm", ".xhtml", ".mht", ".mhtml")
_CONVERT = "Save it as {wanted} and upload that."


def sniff_kind(path: Path, name: str) -> str:
    """Return one of ``rag.core.documents.KINDS``; raise DocumentError for all else."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        if not head:
            raise DocumentError("“{name}” is empty.", hint="Upload a file with text.", name=name)
        is_blank = not head.strip(_BLANK)
        while is_blank and (more := file.read(HEAD)):
            is_blank = not more.strip(_BLANK)
    if is_blank:
        raise DocumentError("“{name}” holds no text.", hint="Upload a file with text.", name=name)
    suffix = PurePath(name).suffix.lower()
    if _is_pdf(head, suffix):
        return "pdf"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return zip_kind(path, name)
    if head.startswith(_OLE):
        return ole_kind(path, name)
    if head.startswith(_OLD_WORD):
        return "doc"
    _refuse_known(head, name)
    return _text_kind(head, suffix)


def _is_pdf(head: bytes, suffix: str) -> bool:
    """Return whether it is a PDF; some have junk before their mark, but a text may name it."""
    at = head[:2048].find(b"%PDF-")
    if at <= 0:
        return at == 0
    return suffix == ".pdf" or not head[:at].strip(_BLANK + b"\xef\xbb\xbf") or b"\0" in head


def _refuse_known(head: bytes, name: str) -> None:
    if head.startswith(b"version https://git-lfs"):
        raise DocumentError(
            "“{name}” is a Git LFS pointer, not the document.",
            hint="Upload the real file.",
            name=name,
        )
    if head.lstrip(_BLANK).startswith(b"{\\rtf"):
        raise DocumentError("“{name}” is RTF.", hint=_CONVERT, name=name, wanted=".docx")
    is_bitmap = head.startswith(b"BM") and head[6:10] == b"\0\0\0\0"
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    if head.startswith(_IMAGES) or is_bitmap or is_webp or head[4:12] in (b"ftypheic", b"ftypavif"):
        raise DocumentError(
            "“{name}” is an image.", hint="Upload a document with a text layer.", name=name
        )
    if head.startswith(_ARCHIVES) or head[257:262] == b"ustar":
        raise DocumentError(
            "“{name}” is an archive, not a document.",
            hint="Unpack it and upload the documents.",
            name=name,
        )
    if head.lstrip(_BLANK + b"\xef\xbb\xbf").startswith(b"<?xml") and _WORD_XML.search(head):
        raise DocumentError("“{name}” is Word XML.", hint=_CONVERT, name=name, wanted=".docx")


def _text_kind(head: bytes, suffix: str) -> str:
    is_wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    plain = (head[2:].replace(b"\0", b"") if is_wide else head).removeprefix(b"\xef\xbb\xbf")
    if _HTML.match(plain):
        return "html"
    header, blank, _ = plain.replace(b"\r\n", b"\n").partition(b"\n\n")
    # A memo begins with lines that look like a mail's: without its name, it needs proof.
    if blank and _HEADERS.fullmatch(header) and _MAIL.search(header):
        is_proven = _MAIL_PROOF.search(header) and len(_MAIL.findall(header)) >= 3
        if suffix in (".eml", ".mht", ".mhtml") or is_proven:
            return "eml"
    if suffix in _HTML_SUFFIXES:
        return "html"
    return _TEXT_KINDS.get(suffix, "txt")
