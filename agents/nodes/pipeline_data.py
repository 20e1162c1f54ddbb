"""Texts of people and documents as data of a prompt. In: a text. Out: it, kept in its place."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
# What no XML holds, escaped or not.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def language_of(text: str) -> str:
    """Return zh or en, by the letters of a text."""
    n_han = len(_HAN.findall(text))
    return "zh" if n_han and n_han >= 0.3 * len(_LETTER.findall(text)) else "en"


def data(text: str) -> str:
    """Return a text that stays inside its element, whatever it holds."""
    return escape(_FORBIDDEN.sub("", text))


def attribute(text: str) -> str:
    """Return a text as the quoted value of an attribute, whatever it holds."""
    return quoteattr(_FORBIDDEN.sub("", text), {"\n": " ", "\r": " ", "\t": " "})
