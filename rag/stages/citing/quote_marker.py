"""Citation markers of our own making: a text of a passage quoted as it stands."""

from __future__ import annotations

import re

from rag.stages.citing.citation_markers import Marker, read_markers

# A source's own markers are none of the answer's.
_TAG = re.compile(r"<(?=/?cite\b)", re.I)
_NUMBERS = re.compile(r"[\[［【](\s*\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\s*)[\]］】]")

# By number: escaped by name, signs are what models write in place of their own.
_ESCAPES = str.maketrans({sign: f"&#x{ord(sign):x};" for sign in "&<>\"'"})


def quote_marker(doc_id: str, text: str, *, claim: str = "") -> str:
    """Return a marker that quotes the text letter by letter; it is its own claim if none is given.

    The claim is shown on one line.
    """
    shown = unmarked(claim or text)
    return f'<cite doc_id="{doc_id}" quote="{text.translate(_ESCAPES)}">{shown}</cite>'


# Where it still reads like a marker, its brackets are others.
_BRACKETS = str.maketrans(
    dict.fromkeys("[［【(（<", "‹") | dict.fromkeys("]］】)）>", "›") | {"&": "＆"}
)


def unmarked(text: str) -> str:
    """Return a text on one line, whose markers can be taken for none of ours."""
    line = _NUMBERS.sub(r"(\1)", _TAG.sub("‹", " ".join(text.split())))
    is_marked = any(isinstance(part, Marker) for part in read_markers(line))
    return line.translate(_BRACKETS) if is_marked else line
