"""OLE detection: the kind of document in a compound file ([MS-CFB])."""

from __future__ import annotations

import struct
from pathlib import Path

from rag.core.errors import DocumentError
from rag.stages.detect.refusals import damaged_file, password_protected_file

_END = 0xFFFFFFFA
_CONVERT = "Save it as {wanted} and upload that."
_OLD = {
    "Workbook": ".xlsx",
    "Book": ".xlsx",
    "PowerPoint Document": ".pptx",
    "__properties_version1.0": ".eml",
    "VisioDocument": ".docx",
}
# In the file information block: [MS-DOC] 2.5.2, fEncrypted; Word 6 has it in the same place.
_FIB_FLAGS, _FIB_ENCRYPTED = 10, 0x0100


def ole_kind(path: Path, name: str) -> str:
    """Return doc; raise DocumentError for encrypted, damaged and all other OLE files."""
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
    wanted = next((suffix for stream, suffix in _OLD.items() if stream in streams), "")
    if not wanted:
        raise damaged_file(name)
    raise DocumentError(
        "“{name}” is in an old office format.", hint=_CONVERT, name=name, wanted=wanted
    )


def _streams(data: bytes) -> dict[str, bytes]:
    """Return the name of every stream and storage with the first bytes of the large ones."""
    sector_size = 1 << struct.unpack_from("<H", data, 30)[0]
    if sector_size not in (512, 4096):
        raise ValueError("no such sector size")
    found: dict[str, bytes] = {}
    table = _fat_sectors(data, sector_size)
    at, seen = _u32(data, 48), set[int]()
    while at < _END and at not in seen:
        seen.add(at)
        block = _sector(data, at, sector_size)
        for start in range(0, len(block) - 127, 128):
            length = int.from_bytes(block[start + 64 : start + 66], "little")
            if block[start + 66] and 2 <= length <= 64:
                title = block[start : start + length - 2].decode("utf-16-le", "replace")
                begins, size = _u32(block, start + 116), _u32(block, start + 120)
                # Streams below 4096 bytes lie in another, smaller grid.
                is_large = begins < _END and size >= 4096
                found[title] = _sector(data, begins, sector_size)[:64] if is_large else b""
        which, index = divmod(at, sector_size // 4)
        at = _u32(_sector(data, table[which], sector_size), 4 * index)
    return found


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
