"""Citation markers of our own making: a text of a passage quoted as it stands."""

from __future__ import annotations

import html
import re

# A source's own markers are none of the answer's.
_TAG = re.compile(r"<(?=/?cite\b)", re.I)
_NUMBERS = re.compile(r"[\[［【](\s*\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\s*)[\]］】]")


def quote_marker(doc_id: str, text: str, *, claim: str = "") -> str:
    """Return a marker that quotes the text letter by letter; it is its own claim if none is given.

    The claim is shown on one line.
    """
    shown = unmarked(claim or text)
    return f'<cite doc_id="{doc_id}" quote="{html.escape(text)}">{shown}</cite>'


def unmarked(text: str) -> str:
    """Return a text on one line, whose markers can be taken for none of ours."""
    return _NUMBERS.sub(r"(\1)", _TAG.sub("‹", " ".join(text.split())))
