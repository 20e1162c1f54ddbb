"""What an answer says it cites. In: an answer as a model writes it. Out: its text and markers.

Two markers are understood: ``<cite doc_id="doc_01" quote="…">claim</cite>`` and a bare ``[n]``.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from rag.stages.sentences import sentence_ends

MAX_TAG = 4000
_TOKEN = re.compile(
    r"<cite(?=[\s/>])|</cite\s*>"
    r"|[\[【]\s*(?P<numbers>\d{1,3}(?:\s*[,，、]\s*\d{1,3}){0,19})\s*[\]】](?!\()",
    re.I,
)
# A quote's own marks are often left as they are: the last one before the next name is the end.
_ATTRIBUTE = re.compile(
    r"(\w+)\s*=\s*(?:\"(.*?)\"|'(.*?)'|[“”](.*?)[“”]|([\w-]+))"
    r"(?=\s+\w+\s*=\s*[\"'“”\w]|\s*/?\s*$)",
    re.S,
)
_BULLET = re.compile(r"(?:[-*•>#]+\s+|\d{1,2}(?:[.)]\s+|、))+")
_MARKS = "\"'“”"


@dataclass(frozen=True, slots=True)
class Marker:
    """One citation as written: which document, which words, and what they are to prove."""

    doc_id: str
    quote: str
    claim: str


def read_markers(text: str) -> list[str | Marker]:
    """Return the answer in order: what is read, and markers where they end.

    Never raises: what is no marker stays text, a tag left open ends with the text, and a tag that
    breaks off at the end of the text is dropped.
    """
    parts: list[str | Marker] = []
    opened: list[tuple[str, int]] = []
    position = 0
    while match := _TOKEN.search(text, position):
        if match.group()[:5].lower() == "<cite":
            end = _tag_end(text, match.end())
            if end < 0 and (opened or len(text) - match.start() < MAX_TAG):
                is_tail = "</cite" not in text[match.end() :].lower()
                parts.append(text[position : match.start()])
                position = len(text) if is_tail and "\n\n" not in text[match.end() :] else match.end()
                continue
            parts.append(text[position : match.start()])
            position = match.end() if end < 0 else end + 1
            if end >= 0:
                _open(parts, opened, text[match.end() : end])
            continue
        parts.append(text[position : match.start()])
        position = match.end()
        if match["numbers"] is None:
            if opened:
                parts.append(_closed(parts, *opened.pop()))
            continue
        claim = _sentence(parts)
        parts += [Marker(n, "", claim) for n in re.findall(r"\d+", match["numbers"])]
    parts.append(text[position:])
    while opened:
        parts.append(_closed(parts, *opened.pop()))
    return [part for part in parts if part != ""]
