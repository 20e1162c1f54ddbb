"""Encoding names and aliases as Python codecs."""

from __future__ import annotations

import codecs
import re

from rag.core.errors import InvalidInputError

# Names of subsets are in use for files that go beyond them; these decode all of both.
SUPERSETS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "cp936": "gb18030",
    "hz-gb-2312": "hz",
    "big5": "big5hkscs",
    "cp950": "big5hkscs",
}
# What people are offered, by codec; a name that is not here may be typed where there is room.
USUAL = {
    "utf-8": "UTF-8",
    "gb18030": "GB18030 / GBK / GB2312 · 简体",
    "big5hkscs": "Big5 · 繁體",
    "utf-16": "UTF-16",
    "shift_jis": "Shift JIS · 日本語",
    "euc_jp": "EUC-JP · 日本語",
    "euc_kr": "EUC-KR · 한국어",
    "cp1252": "Windows-1252",
    "cp1251": "Windows-1251 · кириллица",
}
# What is declared as one of these is written in the other ([WHATWG Encoding] 4.2).
_DECLARED = {"iso8859-1": "cp1252", "ascii": ""}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}")


def encoding_name(name: str) -> str:
    """Return the codec for ``name``, empty for an empty one; raise InvalidInputError if unknown."""
    name = name.strip()
    if not name:
        return ""
    try:
        if not _NAME.fullmatch(name):
            raise LookupError(name)
        # Python has codecs that turn no text into bytes; those refuse this.
        "a".encode(name)
        codec = codecs.lookup(name).name
    except (LookupError, UnicodeError) as error:
        raise InvalidInputError(
            "“{encoding}” is no encoding of texts.",
            hint="Known are, among others: {known}.",
            encoding=name,
            known=", ".join(USUAL),
        ) from error
    return SUPERSETS.get(codec, codec)


def declared_codec(label: str) -> str:
    """Return the codec for what a page or a mail declares, empty for what tells nothing."""
    try:
        codec = codecs.lookup(label).name
        # Some read names of hosts or base64, and no other bytes.
        bytes(range(256)).decode(codec, "replace")
    except (LookupError, ValueError):
        return ""
    return _DECLARED.get(codec, SUPERSETS.get(codec, codec))


def keeps_ascii(codec: str) -> bool:
    """Return whether it is known and writes ASCII as such, which UTF-16 and mainframes do not."""
    try:
        return bool(codec) and b"AZ az 09.".decode(codec) == "AZ az 09."
    except (LookupError, UnicodeError):
        return False
