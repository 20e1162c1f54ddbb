"""Makes extracted text fit to be stored, cut and quoted. In: raw text. Out: clean text.

Characters are never replaced by look-alikes (no NFKC): what is stored is what is shown.
"""

from __future__ import annotations

import re
import unicodedata

_LINE_END = re.compile(r"\r\n?|[\x0b\x85\u2028\u2029]")
# pdfium writes U+0002 for a hyphen that a line end made necessary.
_SOFT_BREAK = re.compile("\x02[ \t]*\n?[ \t]*")
_DROPPED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_SUSPECT = re.compile("[\u0080-\u00ff\ufffd\ue000-\uf8ff]")
_LETTER = re.compile(r"[^\W\d_]|[\ufffd\ue000-\uf8ff\u0080-\u00bf]")


def clean_text(text: str) -> str:
    """Return the text in NFC with plain line ends, hyphenated words joined, controls dropped."""
    if "\r" in text or not text.isascii():
        text = _LINE_END.sub("\n", text)
    text = _SOFT_BREAK.sub("", text)
    text = _DROPPED.sub("", text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def is_garbled(text: str) -> bool:
    """Return whether most letters come from a font or encoding that could not be read."""
    letters = len(_LETTER.findall(text))
    return letters >= 20 and len(_SUSPECT.findall(text)) > 0.4 * letters
