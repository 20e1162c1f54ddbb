"""Zip detection: the kind of document in a zip; bombs and encrypted entries are refused.

Sizes are counted while unpacking: those that a zip declares may lie.
"""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from pathlib import Path

from rag.core.errors import DocumentError
from rag.stages.detect.refusals import damaged_file, password_protected_file

MAX_MEMBERS = 5_000
MAX_TOTAL = 300 * 1024**2
MAX_RATIO = 100
# A few hundred KB of even text pack better than any ratio: not worth refusing.
SMALL = 10 * 1024**2
PIECE = 1 << 20
MAX_TYPES = 1 << 20
_MAIN = {
    "wordprocessingml": "docx",
    "presentationml": "pptx",
    "spreadsheetml": "xlsx",
}
_MAIN_TYPE = re.compile(
    rb"(wordprocessingml|presentationml|spreadsheetml)\.(?:document|template|presentation|"
    rb"slideshow|sheet)\.main\+xml|"
    rb"application/vnd\.ms-(?:(word|powerpoint|excel)\.[a-z]+\.macroEnabled\w*\.main\+xml)"
)
_MACRO_MAIN = {"word": "docx", "powerpoint": "pptx", "excel": "xlsx"}
_FOLDERS = {"docx": "word/", "pptx": "ppt/", "xlsx": "xl/"}
_XML = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_OFFICE_DTD = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.I)
# A book's chapters name their document type; only entities of their own multiply.
_BOOK_DTD = re.compile(rb"<!ENTITY", re.I)
_ENCRYPTED = 1


def zip_kind(path: Path, name: str) -> str:
    """Return docx, pptx, xlsx or epub; raise DocumentError for all else."""
    try:
        with zipfile.ZipFile(path) as bundle:
            members = bundle.infolist()
            names = {member.filename for member in members}
            if any(member.flag_bits & _ENCRYPTED for member in members):
                raise password_protected_file(name)
            kind = _kind_of(bundle, names, name)
            if len(members) > MAX_MEMBERS:
                raise _bomb(name, len(members), path.stat().st_size)
            _inspect(bundle, members, kind, name)
            return kind
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        OSError,
        EOFError,
        ValueError,
        NotImplementedError,
    ) as error:
        raise damaged_file(name) from error


def _kind_of(bundle: zipfile.ZipFile, names: set[str], name: str) -> str:
    if "[Content_Types].xml" in names:
        with bundle.open("[Content_Types].xml") as part:
            types = part.read(MAX_TYPES)
        if b"sheet.binary.macroEnabled.main" in types:
            raise _convert(name, ".xlsx")
        match = _MAIN_TYPE.search(types)
        if match:
            family = (match[1] or match[2]).decode()
            kind = _MAIN.get(family) or _MACRO_MAIN[family]
            if any(part.startswith(_FOLDERS[kind]) for part in names):
                return kind
    if "mimetype" in names:
        with bundle.open("mimetype") as part:
            declared = part.read(200).strip()
        if declared == b"application/epub+zip":
            return "epub"
        if declared.startswith(b"application/vnd.oasis.opendocument"):
            wanted = ".xlsx" if b"spreadsheet" in declared else ".docx"
            wanted = ".pptx" if b"presentation" in declared else wanted
            raise DocumentError(
                "“{name}” is an OpenDocument file.",
                hint="Save it as {wanted} and upload that.",
                name=name,
                wanted=wanted,
            )
    raise DocumentError(
        "“{name}” is a zip, not a document.",
        hint="Unpack it and upload the documents.",
        name=name,
    )


def _inspect(bundle: zipfile.ZipFile, members: list[zipfile.ZipInfo], kind: str, name: str) -> None:
    """Unpack everything once, piece by piece, and refuse what no document does."""
    total = packed = 0
    dtd = _BOOK_DTD if kind == "epub" else _OFFICE_DTD
    for member in members:
        is_xml = member.filename.lower().endswith(_XML)
        packed += member.compress_size
        tail = b""
        with bundle.open(member) as part:
            while piece := part.read(PIECE):
                total += len(piece)
                if total > MAX_TOTAL or (total > SMALL and total > MAX_RATIO * max(packed, 1)):
                    raise _bomb(name, len(members), total)
                plain = (tail + piece).replace(b"\0", b"") if is_xml else b""
                if dtd.search(plain):
                    raise DocumentError(
                        "“{name}” declares entities, which office documents never do.",
                        hint="Save it anew with a word processor.",
                        name=name,
                    )
                tail = piece[-16:]


def _bomb(name: str, n_members: int, size: int) -> DocumentError:
    return DocumentError(
        "“{name}” would unpack to {n} parts and {mb} MB.",
        hint="Save it anew with a word processor, or split it.",
        name=name,
        n=n_members,
        mb=size // 1024**2,
    )


def _convert(name: str, wanted: str) -> DocumentError:
    return DocumentError(
        "“{name}” is in an old office format.",
        hint="Save it as {wanted} and upload that.",
        name=name,
        wanted=wanted,
    )
