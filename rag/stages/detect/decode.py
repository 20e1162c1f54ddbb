"""Decoding cascade: bytes of a text file to text, with the encoding that was detected or named."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from contextlib import suppress

from rag.core.errors import DocumentError, InvalidInputError

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


PIECE = 1 << 20
SAMPLE = 64 * 1024
MAX_LOST = 0.005
_HIGH = re.compile(rb"[\x80-\xff]")
# Bytes that no text encoding uses; 0x1B begins the escapes of ISO-2022.
_ODD = bytes(i for i in range(32) if i not in (8, 9, 10, 11, 12, 13, 26, 27)) + b"\x7f"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Lead bytes of punctuation and of the common half of the characters.
_CHINESE = {
    "gb18030": ("gb2312", [bytes([lead]) for lead in range(0xA1, 0xD8)]),
    "big5hkscs": ("big5", [bytes([lead]) for lead in range(0xA1, 0xC7)]),
}
_USUAL = re.compile(r"[\t\n\r\x20-\x7e\u3000-\u303f\u4e00-\u9fff\uff00-\uffef\u2010-\u2027]")
_BINARY = "“{name}” is binary, not text."


def decode_text(data: bytes, name: str = "", encoding: str = "") -> tuple[str, str]:
    """Return the text and its encoding; ``encoding`` overrules the detection.

    Up to 0.5 % of damaged characters become U+FFFD. Raises DocumentError for binary data and when
    no encoding fits.
    """
    if encoding:
        return _as_asked(data, name, encoding)
    for bom, codec in _BOMS:
        if data.startswith(bom):
            if marked := _mostly(data, codec):
                return marked
            data = data.removeprefix(bom)  # It lies.
    head = data[:SAMPLE]
    # UTF-16 has bytes that no other text has; without them, letters in pairs look Chinese.
    if _count_odd(head) > (0.01 * len(head) if len(head) > 200 else 0) and (wide := _utf16(data)):
        return wide
    if _count_odd(data) > 0.01 * len(data):
        raise DocumentError(_BINARY, hint="Upload a document.", name=name)
    if escaped := _escaped(data):
        return escaped
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        pass
    found = _damaged_utf8(data) or _short_utf16(data) or _detected(data) or _mostly(data, "gb18030")
    if found is None:
        raise DocumentError(
            "The encoding of “{name}” cannot be told.",
            hint="Save it as UTF-8 and upload that.",
            name=name,
        )
    return found


def decode_declared(data: bytes, name: str, label: str) -> tuple[str, str]:
    """Return text and encoding of bytes that came with a label, believed where they agree with it.

    Many labels are wrong for UTF-8, which hardly any other text is by chance.
    """
    codec = declared_codec(label)
    is_marked = any(data.startswith(bom) for bom, _ in _BOMS)
    if codec and not is_marked and _n_wide_utf8(data) < (1 if _is_single_byte(codec) else 3):
        with suppress(DocumentError):
            return decode_text(data, name, codec)
    return decode_text(data, name)


def _n_wide_utf8(data: bytes) -> int:
    """Return how many characters beyond ASCII a sample holds as UTF-8, none when it is not."""
    try:
        sample = codecs.getincrementaldecoder("utf-8")().decode(_telling(data))
    except UnicodeDecodeError:
        return 0
    return sum(character > "\x7f" for character in sample)


def _as_asked(data: bytes, name: str, encoding: str) -> tuple[str, str]:
    found = None
    with suppress(ValueError, LookupError):
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            # Some, such as punycode, cannot pass over a bad byte.
            found = _mostly(data, encoding) if len(data) > 200 else None
    if found is None:
        raise DocumentError(
            "“{name}” cannot be read as {encoding}.",
            hint="Choose another encoding.",
            name=name,
            encoding=encoding,
        )
    return found


def _count_odd(data: bytes) -> int:
    pieces = (data[start : start + PIECE] for start in range(0, len(data), PIECE))
    return sum(len(piece) - len(piece.translate(None, _ODD)) for piece in pieces)


def _escaped(data: bytes) -> tuple[str, str] | None:
    """Return the text of an encoding that shifts by escapes and looks like ASCII."""
    for mark, codec in ((b"\x1b$", "iso2022_jp_2"), (b"~{", "hz")):
        if mark in data[:SAMPLE] and data.isascii():
            try:
                text = data.decode(codec)
            except UnicodeDecodeError:
                continue
            if not text.isascii():
                return text, codec
    return None


def _short_utf16(data: bytes) -> tuple[str, str] | None:
    """Return a few characters that make sense in no other way."""
    if not 8 <= len(data) <= 200 or len(data) % 2 or _as_chinese(data):
        return None
    return _utf16(data, 0.999)


def _utf16(data: bytes, least: float = 0.9) -> tuple[str, str] | None:
    """Return the text when it makes sense as UTF-16 without a mark, in either byte order."""
    best, top = "", least
    for codec in ("utf-16-le", "utf-16-be"):
        start = data[: min(SAMPLE, len(data) // 2 * 2)].decode(codec, "replace")
        score = len(_USUAL.findall(start)) / max(1, len(start))
        if score > top:
            best, top = codec, score
    return (data.decode(best, "replace"), best) if best else None


def _damaged_utf8(data: bytes) -> tuple[str, str] | None:
    """Return UTF-8 with few bad bytes, such as a cut end; its other characters must be sound."""
    sample = _telling(data).decode("utf-8", "replace")
    bad = sample.count("\ufffd")
    wide = sum(character > "\x7f" for character in sample)
    return _mostly(data, "utf-8") if bad <= 0.1 * wide or bad <= 1 < wide else None


def _detected(data: bytes) -> tuple[str, str] | None:
    # Imported when bytes are not UTF-8: most texts are.
    import chardet

    sample = _telling(data)
    guess = str(chardet.detect(sample)["encoding"] or "").lower()
    codec = SUPERSETS.get(guess, guess)
    # Noise looks like the codes of mainframes.
    if not keeps_ascii(codec):
        codec = ""
    if _is_single_byte(codec) and (chinese := _as_chinese(sample)):
        codec = chinese
    if codec in ("", "ascii"):
        return None
    if _is_single_byte(codec) and not _makes_words(sample, codec):
        return None
    try:
        return data.decode(codec), codec
    except (UnicodeError, LookupError):
        return _mostly(data, codec) if codec in _CHINESE else None


def _makes_words(sample: bytes, codec: str) -> bool:
    """Return whether the letters of another script, where they prevail, are letters indeed."""
    text = sample.decode(codec, "replace")
    wide = [character for character in text if character > "\x7f"]
    n_letters = sum(character.isalpha() for character in wide)
    return len(wide) < max(20, 0.5 * len(text)) or n_letters >= 0.8 * len(wide)


def _is_single_byte(codec: str) -> bool:
    return not codec or len(bytes(range(256)).decode(codec, "replace")) == 256


def _as_chinese(sample: bytes) -> str:
    """Return the codec in which nearly all of the sample is common Chinese, or nothing.

    One bad byte makes the detector name a single-byte encoding, in which every byte is sound.
    """
    for codec, (table, leads) in _CHINESE.items():
        counts = Counter(sample.decode(codec, "replace"))
        wide = {character: n for character, n in counts.items() if character > "\x7f"}
        common = sum(n for c, n in wide.items() if c.encode(table, "ignore")[:1] in leads)
        if sum(wide.values()) >= 8 and common >= 0.95 * sum(wide.values()):
            return codec
    return ""


def _telling(data: bytes) -> bytes:
    """Return up to 64 KB of the lines that hold bytes beyond ASCII, wherever they begin."""
    parts: list[bytes] = []
    left, end = SAMPLE, 0
    while left > 0 and (match := _HIGH.search(data, end)):
        # Before the first such byte of a line all is ASCII: no character is cut in two here.
        start = max(end, match.start() - 200)
        stop = data.find(b"\n", match.start())
        end = min(len(data) if stop < 0 else stop + 1, start + left)
        parts.append(data[start:end])
        left -= end - start
    return b"".join(parts)


def _mostly(data: bytes, codec: str) -> tuple[str, str] | None:
    text = data.decode(codec, "replace")
    # One bad byte may cost three characters.
    most = max(MAX_LOST * len(text), 3 if len(text) > 100 else 1)
    return (text, codec) if text.count("\ufffd") <= most else None
