"""What a file is, by its content. In: a path and a name. Out: a kind, or a refusal that helps.

The name decides only between kinds of text, which look alike.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path, PurePath

from rag.core.errors import DocumentError

HEAD = 64 * 1024
MAX_MEMBERS = 5_000
MAX_TOTAL = 300 * 1024**2
MAX_RATIO = 100
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"BM")
_ZIP_KINDS = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
}
_HTML = re.compile(rb"<!doctype\s+html|<html[\s>]|<body[\s>]", re.I)
_MAIL = re.compile(
    rb"^(from|to|subject|date|received|mime-version|message-id|return-path):", re.I | re.M
)
_TEXT_KINDS = {".md": "md", ".markdown": "md", ".csv": "csv", ".tsv": "csv"}
_HINT_CONVERT = "Save it as {wanted} and upload that."


def sniff_kind(path: Path, name: str) -> str:
    """Return one of ``rag.core.documents.KINDS``; raise DocumentError for all else."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.strip(b"\0 \t\r\n\f\xef\xbb\xbf"):
        what = "is empty" if not head else "holds no text"
        raise DocumentError(f"“{{name}}” {what}.", hint="Upload a file with text.", name=name)
    if head.startswith(b"version https://git-lfs"):
        raise DocumentError(
            "“{name}” is a Git LFS pointer, not the document.",
            hint="Upload the real file.",
            name=name,
        )
    if b"%PDF-" in head[:2048]:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return _zip_kind(path, name)
    if head.startswith(_OLE):
        return _ole_kind(path, name)
    if head.startswith(b"{\\rtf"):
        raise DocumentError("“{name}” is RTF.", hint=_HINT_CONVERT, name=name, wanted=".docx")
    if head.startswith(_IMAGES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        raise DocumentError(
            "“{name}” is an image.", hint="Upload a document with a text layer.", name=name
        )
    return _text_kind(head, name)


def _zip_kind(path: Path, name: str) -> str:
    try:
        with zipfile.ZipFile(path) as bundle:
            members = bundle.infolist()
            names = {member.filename for member in members}
            _refuse_bomb(members, name)
            if any(member.flag_bits & 1 for member in members):
                raise _password(name)
            kind = next((kind for part, kind in _ZIP_KINDS.items() if part in names), "")
            if kind and "[Content_Types].xml" not in names:
                kind = ""
            if (
                "mimetype" in names
                and bundle.read("mimetype")[:40].strip() == b"application/epub+zip"
            ):
                kind = "epub"
            if kind:
                _refuse_dtd(bundle, members, kind, name)
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError) as error:
        raise _damaged(name) from error
    if not kind:
        raise DocumentError(
            "“{name}” is a zip, not a document.",
            hint="Unpack it and upload the documents.",
            name=name,
        )
    return kind


def _refuse_bomb(members: list[zipfile.ZipInfo], name: str) -> None:
    total = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    is_bomb = total > MAX_TOTAL or (total > 10 * 1024**2 and total > MAX_RATIO * max(packed, 1))
    if len(members) > MAX_MEMBERS or is_bomb:
        raise DocumentError(
            "“{name}” would unpack to {n} parts and {mb} MB.",
            hint="Save it anew with a word processor, or split it.",
            name=name, n=len(members), mb=total // 1024**2,
        )  # fmt: skip


def _refuse_dtd(
    bundle: zipfile.ZipFile, members: list[zipfile.ZipInfo], kind: str, name: str
) -> None:
    if kind == "epub":
        return  # XHTML names its document type; xberg resolves no entities.
    for member in members:
        if member.filename.endswith((".xml", ".rels")):
            with bundle.open(member) as part:
                start = part.read(4096).replace(b"\0", b"")
            if b"<!DOCTYPE" in start.upper():
                raise DocumentError(
                    "“{name}” declares entities, which office documents never do.",
                    hint="Save it anew with a word processor.", name=name,
                )  # fmt: skip


def _ole_kind(path: Path, name: str) -> str:
    data = path.read_bytes()
    for stream in ("EncryptedPackage", "EncryptionInfo"):
        if stream.encode("utf-16le") in data:
            raise _password(name)
    if "WordDocument".encode("utf-16le") in data:
        for start in range(512, len(data) - 12, 512):
            # The file information block of Word 97 and later, at the start of its stream.
            if data[start : start + 2] == b"\xec\xa5" and data[start + 11] & 1:
                raise _password(name)
        return "doc"
    for stream, wanted in (
        ("Workbook", ".xlsx"),
        ("Book", ".xlsx"),
        ("PowerPoint Document", ".pptx"),
    ):
        if stream.encode("utf-16le") in data:
            raise DocumentError(
                "“{name}” is in an old office format.", hint=_HINT_CONVERT, name=name, wanted=wanted
            )
    raise _damaged(name)


def _text_kind(head: bytes, name: str) -> str:
    is_wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    plain = head.replace(b"\0", b"") if is_wide else head
    if _HTML.search(plain[:4096]):
        return "html"
    header, blank, _ = plain.replace(b"\r\n", b"\n").partition(b"\n\n")
    suffix = PurePath(name).suffix.lower()
    if blank and (suffix == ".eml" or len(_MAIL.findall(header)) >= 3):
        return "eml"
    if suffix in (".html", ".htm", ".xhtml"):
        return "html"
    return _TEXT_KINDS.get(suffix, "txt")


def _password(name: str) -> DocumentError:
    return DocumentError(
        "“{name}” needs a password.", hint="Remove the password and upload it again.", name=name
    )


def _damaged(name: str) -> DocumentError:
    return DocumentError(
        "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
    )
