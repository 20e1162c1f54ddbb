"""File type detection by content: a kind, or a refusal that says what to do.

The name decides only between kinds of text, which look alike. Old Office files are compound files
([MS-CFB]), new ones zips, of which bombs and encrypted entries are refused.
"""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath

from rag.core.documents import DATA_KINDS, kind_of_name
from rag.core.errors import DocumentError
from rag.stages.detect.file_errors import damaged_file, password_protected_file
from rag.stages.detect.zip_documents import refused_zip

_END, _FREE = 0xFFFFFFFA, 0xFFFFFFFF
# Streams below this size lie in another, smaller grid.
_SMALLEST = 4096
_OLD = {
    "Workbook": "xls",
    "Book": "xls",
    "PowerPoint Document": "ppt",
    "__properties_version1.0": "msg",
    "MatOST": "wps",
}
_ODF = {"text": "odt", "spreadsheet": "ods", "presentation": "odp"}
# In the file information block: [MS-DOC] 2.5.2, fEncrypted; Word 6 has it in the same place.
_FIB_FLAGS, _FIB_ENCRYPTED = 10, 0x0100
MAX_MEMBERS = 5_000
MAX_TOTAL = 300 * 1024**2
MAX_RATIO = 100
# A few hundred KB of even text pack better than any ratio: not worth refusing.
SMALL = 10 * 1024**2
PIECE = 1 << 20
MAX_TYPES = 1 << 20
_MAIN = {"wordprocessingml": "docx", "presentationml": "pptx", "spreadsheetml": "xlsx"}
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
HEAD = 64 * 1024
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
)
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
_TEXT_KINDS = ("md", "csv", "txt", *DATA_KINDS)
_HTML_SUFFIXES = (".html", ".htm", ".xhtml", ".mht", ".mhtml")
_CONVERT = "Save it as {wanted} and upload that."
_FLAT_ODF = re.compile(
    rb"<office:document\s[^>]*\boffice:mimetype=[\"']application/vnd\.oasis\.opendocument\."
    rb"(text|spreadsheet|presentation)\b"
)


def ole_kind(path: Path, name: str) -> str:
    """Return doc, xls, ppt, msg or wps; raise DocumentError for all other OLE files."""
    try:
        streams = _streams(path.read_bytes())
    except (struct.error, ValueError, IndexError) as error:
        raise damaged_file(name) from error
    if "EncryptedPackage" in streams or "EncryptionInfo" in streams:
        raise password_protected_file(name)
    if "WordDocument" in streams:
        start = streams["WordDocument"]
        flags = int.from_bytes(start[_FIB_FLAGS : _FIB_FLAGS + 2], "little")
        if flags & _FIB_ENCRYPTED:
            raise password_protected_file(name)
        return "doc"
    if "EncryptedSummary" in streams:
        raise password_protected_file(name)
    if "VisioDocument" in streams:
        raise _convert(name, ".docx")
    kind = next((kind for stream, kind in _OLD.items() if stream in streams), "")
    if not kind:
        raise damaged_file(name)
    return kind


def is_cut_ole(path: Path) -> bool:
    """Return whether an OLE file ends before what it has allocated; False for all other files."""
    with path.open("rb") as file:
        data = file.read(len(_OLE))
        data += file.read() if data == _OLE else b""
    if not data.startswith(_OLE):
        return False
    try:
        size = _sector_size(data)
        tables = [_sector(data, at, size) for at in _fat_sectors(data, size) if at < _END]
    except (struct.error, ValueError, IndexError):
        return True
    allocated = b"".join(table.ljust(size, b"\xff") for table in tables)
    places = struct.unpack(f"<{len(allocated) // 4}I", allocated)
    n_used = max((at for at, following in enumerate(places, 1) if following != _FREE), default=0)
    return not all(tables) or size * n_used >= len(data)


def read_ole_stream(data: bytes, name: str) -> bytes:
    """Return a stream, empty where there is none of that name.

    Raises struct.error, ValueError or IndexError when the file is damaged.
    """
    sector_size = _sector_size(data)
    entries = _entries(data, sector_size)
    begins, size = entries.get(name, (_END, 0))
    if size >= _SMALLEST:
        return b"".join(_chain(data, begins, sector_size))[:size]
    grid = b"".join(_chain(data, entries.get("Root Entry", (_END, 0))[0], sector_size))
    table = b"".join(_chain(data, _u32(data, 60), sector_size))
    out: list[bytes] = []
    while begins < _END and len(out) * 64 < size:
        out.append(grid[64 * begins : 64 * begins + 64])
        begins = _u32(table, 4 * begins)
    return b"".join(out)[:size]


def _streams(data: bytes) -> dict[str, bytes]:
    """Return the name of every stream and storage with the first bytes of the large ones."""
    size = _sector_size(data)
    return {
        title: _sector(data, begins, size)[:64] if begins < _END and length >= _SMALLEST else b""
        for title, (begins, length) in _entries(data, size).items()
    }


def _sector_size(data: bytes) -> int:
    size = 1 << struct.unpack_from("<H", data, 30)[0]
    if size not in (512, 4096):
        raise ValueError("no such sector size")
    return int(size)


def _entries(data: bytes, sector_size: int) -> dict[str, tuple[int, int]]:
    """Return the first sector and the size of every stream and storage by its name."""
    found: dict[str, tuple[int, int]] = {}
    for block in _chain(data, _u32(data, 48), sector_size):
        for start in range(0, len(block) - 127, 128):
            length = int.from_bytes(block[start + 64 : start + 66], "little")
            if block[start + 66] and 2 <= length <= 64:
                title = block[start : start + length - 2].decode("utf-16-le", "replace")
                found[title] = _u32(block, start + 116), _u32(block, start + 120)
    return found


def _chain(data: bytes, at: int, sector_size: int) -> Iterator[bytes]:
    """Yield the sectors from one on, each once."""
    table, seen = _fat_sectors(data, sector_size), set[int]()
    while at < _END and at not in seen:
        seen.add(at)
        yield _sector(data, at, sector_size)
        which, index = divmod(at, sector_size // 4)
        at = _u32(_sector(data, table[which], sector_size), 4 * index)


def _fat_sectors(data: bytes, sector_size: int) -> list[int]:
    """Return the sectors that hold the allocation table, in order."""
    sectors = list(struct.unpack_from("<109I", data, 76))
    following, seen = _u32(data, 68), set[int]()
    while following < _END and following not in seen:
        seen.add(following)
        block = _sector(data, following, sector_size)
        *more, following = struct.unpack(f"<{len(block) // 4}I", block)
        sectors += more
    return sectors


def _sector(data: bytes, number: int, size: int) -> bytes:
    return data[(number + 1) * size : (number + 2) * size]


def _u32(data: bytes, offset: int) -> int:
    return int(struct.unpack_from("<I", data, offset)[0])


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
            return _odf_kind(bundle, declared.decode("ascii", "replace"), name)
    if "OFD.xml" in names:
        return "ofd"
    raise refused_zip(names, name)


def _odf_kind(bundle: zipfile.ZipFile, declared: str, name: str) -> str:
    """Return odt, ods or odp; raise DocumentError for drawings and for what is encrypted."""
    if "META-INF/manifest.xml" in bundle.NameToInfo:
        with bundle.open("META-INF/manifest.xml") as part:
            if b"encryption-data" in part.read(MAX_TYPES):
                raise password_protected_file(name)
    family = declared.rpartition(".")[2].partition("-")[0]
    if family not in _ODF or "content.xml" not in bundle.NameToInfo:
        raise DocumentError(
            "“{name}” is an OpenDocument file of a kind that is not read here.",
            hint="Save it as PDF and upload that.",
            name=name,
        )
    return _ODF[family]


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
                    raise _declares_entities(name)
                tail = piece[-16:]


def _declares_entities(name: str) -> DocumentError:
    return DocumentError(
        "“{name}” declares entities, which office documents never do.",
        hint="Save it anew with a word processor.",
        name=name,
    )


def _flat_odf_kind(path: Path, head: bytes, name: str) -> str:
    """Return odt, ods or odp for OpenDocument as one XML file, empty for all else."""
    match = _FLAT_ODF.search(head)
    if match and _OFFICE_DTD.search(path.read_bytes()):
        raise _declares_entities(name)
    return _ODF[match[1].decode()] if match else ""


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


def image_kind(head: bytes) -> str:
    """Return one of ``IMAGE_KINDS`` by a file's first bytes, empty for all else."""
    for mark, kind in _IMAGES:
        if head.startswith(mark):
            return kind
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return "bmp"
    return "webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""


def may_hold_pictures(path: Path) -> bool:
    """Return whether OCR may find something in a file, by its first bytes or its members."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    return bool(image_kind(head)) or b"%PDF-" in head[:2048] or _holds_media(path, head)


def _holds_media(path: Path, head: bytes) -> bool:
    """Return whether it is an office file with pictures; damage is told by who reads it."""
    if not head.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(path) as bundle:
            return any("/media/" in name for name in bundle.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def is_image(path: Path) -> bool:
    """Return whether a file is of one of ``IMAGE_KINDS``, by its first bytes."""
    with path.open("rb") as file:
        return bool(image_kind(file.read(16)))


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
    if head.lstrip(_BLANK).startswith(b"{\\rtf"):
        return "rtf"
    if image := image_kind(head):
        return image
    if flat := _flat_odf_kind(path, head, name):
        return flat
    _refuse_known(head, name)
    return _text_kind(head, name)


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
    if head[4:12] in (b"ftypheic", b"ftypavif"):
        raise DocumentError("“{name}” is an image.", hint=_CONVERT, name=name, wanted=".png")
    if head.startswith(_ARCHIVES) or head[257:262] == b"ustar":
        raise DocumentError(
            "“{name}” is an archive, not a document.",
            hint="Unpack it and upload the documents.",
            name=name,
        )
    if head.lstrip(_BLANK + b"\xef\xbb\xbf").startswith(b"<?xml") and _WORD_XML.search(head):
        raise DocumentError("“{name}” is Word XML.", hint=_CONVERT, name=name, wanted=".docx")


def _text_kind(head: bytes, name: str) -> str:
    suffix, named = PurePath(name).suffix.lower(), kind_of_name(name)
    is_marked = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    is_wide = is_marked or b"\0" in (head[:1], head[1:2])
    plain = (head[2 * is_marked :].replace(b"\0", b"") if is_wide else head).removeprefix(
        b"\xef\xbb\xbf"
    )
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
    return named if named in _TEXT_KINDS else "txt"
