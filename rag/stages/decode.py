"""Bytes to text. In: the bytes of a text file. Out: text and the name of its encoding."""

from __future__ import annotations

import codecs
import re

import chardet

from rag.core.errors import DocumentError

SAMPLE = 64 * 1024
_HIGH = re.compile(rb"[\x80-\xff]")
_ODD = bytes(i for i in range(32) if i not in (9, 10, 12, 13, 27)) + b"\x7f"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The detector names subsets; the supersets decode what real files hold beyond them.
_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "cp936": "gb18030", "hz-gb-2312": "hz",
              "big5": "big5hkscs", "cp950": "big5hkscs", "ascii": "gb18030"}  # fmt: skip
_USUAL = re.compile(r"[\t\n\r\x20-\x7e\u3000-\u303f\u4e00-\u9fff\uff00-\uffef\u2010-\u2027]")


def decode_text(data: bytes, name: str = "", encoding: str = "") -> tuple[str, str]:
    """Return the text and its encoding; ``encoding`` overrules the detection.

    Raises DocumentError for binary data and when no encoding fits.
    """
    if encoding:
        return _as_asked(data, name, encoding)
    for bom, codec in _BOMS:
        if data.startswith(bom):
            return data.decode(codec, "replace"), codec
    sample = data[:SAMPLE] + data[-SAMPLE:] if len(data) > 2 * SAMPLE else data
    n_odd = len(sample) - len(sample.translate(None, _ODD))
    if n_odd > 0.01 * len(sample):
        wide = _utf16(data)
        if wide is None:
            raise DocumentError(
                "“{name}” is binary, not text.", hint="Upload a document.", name=name
            )
        return wide
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        pass
    return _utf16(data) or _detected(data) or _mostly_gb18030(data) or _give_up(name)


def _as_asked(data: bytes, name: str, encoding: str) -> tuple[str, str]:
    try:
        return data.decode(encoding), encoding
    except (UnicodeError, LookupError) as error:
        raise DocumentError(
            "“{name}” cannot be read as {encoding}.", hint="Choose another encoding.",
            name=name, encoding=encoding,
        ) from error  # fmt: skip


def _utf16(data: bytes) -> tuple[str, str] | None:
    """Return the text when it makes sense as UTF-16 without a mark, in either byte order."""
    best = ("", "", 0.9)
    if len(data) % 2:
        return None
    for codec in ("utf-16-le", "utf-16-be"):
        try:
            start = data[:SAMPLE].decode(codec)
        except UnicodeDecodeError:
            continue
        score = len(_USUAL.findall(start)) / max(1, len(start))
        if score > best[2]:
            best = (start, codec, score)
    if not best[1]:
        return None
    return data.decode(best[1], "replace"), best[1]


def _detected(data: bytes) -> tuple[str, str] | None:
    first = _HIGH.search(data)
    start = max(0, first.start() - 1024) if first else 0
    guess = str(chardet.detect(data[start : start + SAMPLE])["encoding"] or "").lower()
    codec = _SUPERSETS.get(guess, guess)
    try:
        return (data.decode(codec), codec) if codec else None
    except (UnicodeError, LookupError):
        return None


def _mostly_gb18030(data: bytes) -> tuple[str, str] | None:
    text = data.decode("gb18030", "replace")
    return (text, "gb18030") if text.count("\ufffd") < 0.005 * len(text) else None


def _give_up(name: str) -> tuple[str, str]:
    raise DocumentError(
        "The encoding of “{name}” cannot be told.",
        hint="Save it as UTF-8 and upload that.",
        name=name,
    )
