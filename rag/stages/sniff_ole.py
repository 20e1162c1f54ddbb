"""Which document an OLE file holds, by its directory ([MS-CFB]). In: a file. Out: doc, or why not."""

from __future__ import annotations

import struct
from pathlib import Path

from rag.core.errors import DocumentError

_HEADER = struct.Struct("<8s16xHHHHH6xIIIIIIIII")
_END = 0xFFFFFFFA
_PASSWORD = "“{name}” needs a password."
_CONVERT = "Save it as {wanted} and upload that."
_OLD = {"Workbook": ".xlsx", "Book": ".xlsx", "PowerPoint Document": ".pptx",
        "__properties_version1.0": ".eml", "VisioDocument": ".docx"}  # fmt: skip
# In the file information block: [MS-DOC] 2.5.2, fEncrypted and fObfuscated.
_FIB_FLAGS, _FIB_ENCRYPTED, _FIB_OBFUSCATED = 10, 0x0100, 0x8000


def ole_kind(path: Path, name: str) -> str:
    """Return doc; raise DocumentError for encrypted, damaged and all other OLE files."""
    try:
        streams = _streams(path.read_bytes())
    except (struct.error, ValueError, IndexError) as error:
        raise _damaged(name) from error
    if "EncryptedPackage" in streams or "EncryptionInfo" in streams:
        raise DocumentError(
            "“{name}” needs a password.",
            hint="Remove the password and upload it again.", name=name,
        )  # fmt: skip
    if "WordDocument" in streams:
        start = streams["WordDocument"]
        flags = int.from_bytes(start[_FIB_FLAGS : _FIB_FLAGS + 2], "little")
        if flags & (_FIB_ENCRYPTED | _FIB_OBFUSCATED) and flags & _FIB_ENCRYPTED:
            raise DocumentError(
                "“{name}” needs a password.",
                hint="Remove the password and upload it again.", name=name,
            )  # fmt: skip
        return "doc"
    wanted = next((suffix for stream, suffix in _OLD.items() if stream in streams), "")
    if not wanted:
        raise _damaged(name)
    raise DocumentError(
        "“{name}” is in an old office format.", hint=_CONVERT, name=name, wanted=wanted
    )


def _streams(data: bytes) -> dict[str, bytes]:
    """Return the name of every stream and storage with the first bytes of the large ones."""
    fields = _HEADER.unpack_from(data)
    sector_size, first_directory, n_fat = 1 << fields[4], fields[7], fields[6]
    if sector_size not in (512, 4096):
        raise ValueError("no such sector size")

    def sector(number: int) -> bytes:
        start = (number + 1) * sector_size
        return data[start : start + sector_size]

    fat_sectors = [n for n in struct.unpack_from("<109I", data, 76) if n < _END][:n_fat]
    found: dict[str, bytes] = {}
    at, seen = first_directory, set[int]()
    while at < _END and at not in seen:
        seen.add(at)
        block = sector(at)
        for start in range(0, len(block) - 127, 128):
            length = int.from_bytes(block[start + 64 : start + 66], "little")
            if block[start + 66] and 2 <= length <= 64:
                title = block[start : start + length - 2].decode("utf-16-le", "replace")
                begins = int.from_bytes(block[start + 116 : start + 120], "little")
                found[title] = sector(begins)[:64] if begins < _END else b""
        table, index = divmod(at, sector_size // 4)
        if table >= len(fat_sectors):
            break
        at = int.from_bytes(sector(fat_sectors[table])[4 * index : 4 * index + 4], "little")
    return found


def _damaged(name: str) -> DocumentError:
    return DocumentError(
        "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
    )
