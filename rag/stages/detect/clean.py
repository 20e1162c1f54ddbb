"""Text cleaning: control characters, line ends and invisible marks.

Characters are never replaced by look-alikes (no NFKC): what is stored is what is shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

PIECE = 1 << 20
_LINE_END = re.compile(r"\r\n?|[\x0b\x85\u2028\u2029]")
# pdfium writes U+0002 for a hyphen that ends a line, and sometimes keeps the line end after it.
_BEFORE_NAME = re.compile("(?<=[0-9A-Z])\x02[ \t]*\n?[ \t]*(?=[0-9A-Z])")
_SOFT_BREAK = re.compile("\x02[ \t]*\n?[ \t]*")
# Control characters, halves of characters, marks of byte order, and hyphens that only say where a
# line might end: nobody sees them, and a word that holds one would not be found.
_DROPPED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\ud800-\udfff\ufeff\ufffe\uffff]")
# Between two of these it is safe to cut: no line end, no mark on a letter, no hyphen's half.
_CUT = re.compile("(?<=[!-~\u4e00-\u9fff])[!-~\u4e00-\u9fff]")
_SUSPECT = re.compile("[\u0080-\u00bf\u00d7\u00f7\ufffd\ue000-\uf8ff]")
_ACCENTED = re.compile("[\u00c0-\u00ff]")
_LETTER = re.compile(r"[^\W\d_]|[\ufffd\ue000-\uf8ff\u0080-\u00bf]")

_LETTERS = re.compile(r"[^\W\d_]")
_LONG_WORDS = re.compile(r"(?<!\S)[a-z]{2,14}(?=[\s.,;:])")
# Usual tables of letters: English 0.61, German 0.62, Polish about 0.5.
_FREQUENT, _LEAST_FREQUENT, _MANY_WORDS = frozenset("etaoinsr"), 0.45, 80


def clean_text(text: str) -> str:
    """Return the text in NFC with plain line ends, hyphenated words joined, controls dropped.

    A hyphen between capitals or digits, as in a part number, is kept. Long texts are cleaned piece
    by piece, so that one wide character does not make every copy four times as large.
    """
    if len(text) <= PIECE:
        return _clean(text)
    return "".join(_clean(piece) for piece in _pieces(text))


def is_garbled(text: str) -> bool:
    """Return whether most letters come from a font or encoding that could not be read."""
    letters = len(_LETTER.findall(text))
    if letters < 20:
        return False
    suspect, accented = len(_SUSPECT.findall(text)), len(_ACCENTED.findall(text))
    # Accents alone are a language; accents with signs between them are bytes read as Latin-1.
    mixed = suspect + accented if suspect > 0.05 * letters else suspect
    return mixed > 0.4 * letters or accented > 0.7 * letters


def has_swapped_letters(text: str) -> bool:
    """Return whether Latin letters are spread as in no language, as where a font misnames them.

    Frequent letters make half of the text of any language that writes without accents, and a third
    of a text whose letters were exchanged.
    """
    letters = _LETTERS.findall(text[:PIECE])
    plain = [letter for letter in letters if "a" <= letter <= "z"]
    words = _LONG_WORDS.findall(text[:PIECE])
    is_prose = len(plain) > 0.85 * len(letters) and len(words) >= _MANY_WORDS
    return is_prose and sum(one in _FREQUENT for one in plain) < _LEAST_FREQUENT * len(plain)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        cut = _CUT.search(text, start + PIECE)
        end = cut.start() if cut else len(text)
        yield text[start:end]
        start = end


def _clean(text: str) -> str:
    text = _LINE_END.sub("\n", text)
    if "\x02" in text:
        text = _SOFT_BREAK.sub("", _BEFORE_NAME.sub("-", text))
    text = _DROPPED.sub("", text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)
