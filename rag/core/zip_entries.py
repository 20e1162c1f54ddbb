"""Zip entry names, with the GBK names of older Chinese tools decoded."""

from __future__ import annotations

import zipfile


def decode_entry_name(member: zipfile.ZipInfo) -> str:
    """Return the name; old Chinese tools write GBK without saying so."""
    if member.flag_bits & 0x800:
        return member.filename
    for encoding in ("utf-8", "gb18030"):
        try:
            return member.filename.encode("cp437").decode(encoding)
        except UnicodeError:
            continue
    return member.filename
