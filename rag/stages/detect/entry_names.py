"""Names of zip entries: the code page of a bundle whose names do not say theirs.

Chinese tools write GBK or Big5, Western ones the code page of their machine. One bundle is written
by one tool, so all of its names decide together.
"""

from __future__ import annotations

import re
import unicodedata
import zipfile
from collections.abc import Sequence

from rag.stages.text.normalize import to_simplified
from rag.stages.text.terms import segment_han

_UTF8_FLAG = 0x800
_UNICODE_PATH = 0x7075
# A name that went through the code page of DOS before it was called UTF-8.
_DRAWN = re.compile("[\u2500-\u259f]")
_HAN_PAIR = re.compile("[\u4e00-\u9fff]")
# The first level of each character set has what is written every day.
_COMMON = {"gb18030": (0xB0A1, 0xD7F9, "gb2312"), "big5": (0xA440, 0xC67E, "big5")}
_MIN_COMMON = 0.7
_WESTERN = ("cp437", "cp850", "cp1252")
_SIGNS = frozenset("°²³½¼·´`’–ªº&+§©®")


def entry_names(members: Sequence[zipfile.ZipInfo]) -> list[str]:
    """Return the name of each entry as its tool meant it."""
    told = [_told_name(member) for member in members]
    raw = [_bytes(member) for member, name in zip(members, told, strict=True) if name is None]
    encoding = _encoding(b"\n".join(raw))
    return [
        _bytes(member).decode(encoding, "replace") if name is None else name
        for member, name in zip(members, told, strict=True)
    ]


def _told_name(member: zipfile.ZipInfo) -> str | None:
    """Return a name whose encoding is told, or that needs none."""
    if named := _unicode_path(member.extra):
        return named
    if member.filename.isascii():
        return member.filename
    is_told = bool(member.flag_bits & _UTF8_FLAG)
    return member.filename if is_told and not _is_drawn(member.filename) else None


def _is_drawn(name: str) -> bool:
    try:
        name.encode("cp437")
    except UnicodeEncodeError:
        return False
    return len(_DRAWN.findall(name)) >= 2


def _bytes(member: zipfile.ZipInfo) -> bytes:
    return member.filename.encode("cp437")


def _unicode_path(extra: bytes) -> str:
    """Return the name that Info-ZIP keeps beside the other one, empty where there is none."""
    while len(extra) >= 4:
        kind, size = int.from_bytes(extra[:2], "little"), int.from_bytes(extra[2:4], "little")
        if kind == _UNICODE_PATH and size > 5:
            return extra[9 : 4 + size].decode("utf-8", "ignore")
        extra = extra[4 + size :]
    return ""


def _encoding(raw: bytes) -> str:
    """Return the encoding of names: UTF-8, Chinese where its words come of it, else a Western."""
    if _decoded(raw, "utf-8") is not None:
        return "utf-8"
    shares = {encoding: _han_share(raw, encoding) for encoding in _COMMON}
    chinese = max(shares, key=lambda encoding: shares[encoding])
    western = next((page for page in _WESTERN if _is_western(raw, page)), "")
    if shares[chinese] > 0.5 or (shares[chinese] > 0 and western in ("", "cp1252")):
        return chinese
    return western or _WESTERN[0]


def _decoded(raw: bytes, encoding: str) -> str | None:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def _han_share(raw: bytes, encoding: str) -> float:
    """Return which part of the Han characters stands in words; 0 where they are no common ones."""
    text = _decoded(raw, encoding)
    han = _HAN_PAIR.findall(text or "")
    if text is None or not han:
        return 0.0
    first, last, charset = _COMMON[encoding]
    codes = [int.from_bytes(one.encode(charset, "ignore"), "big") for one in han]
    if sum(first <= code <= last for code in codes) < _MIN_COMMON * len(han):
        return 0.0
    words = segment_han(to_simplified("".join(han)))
    # Something, so that a lone character is still more than none.
    return max(0.01, sum(len(word) for word in words if len(word) > 1) / len(han))


def _is_western(raw: bytes, encoding: str) -> bool:
    """Return whether all beyond ASCII are letters of Latin script, or signs as names have them."""
    text = _decoded(raw, encoding)
    beyond = [one for one in text or "" if not one.isascii()]
    return bool(beyond) and all(
        one in _SIGNS or unicodedata.name(one, "").startswith("LATIN") for one in beyond
    )
