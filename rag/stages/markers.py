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
_BULLET = re.compile(r"\A(?:[-*•>#]+\s+|\d{1,2}(?:[.)]\s+|、))+")
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
        parts.append(text[position : match.start()])
        position = match.end()
        if match["numbers"]:
            claim = _sentence(parts)
            parts += [Marker(n, "", claim) for n in re.findall(r"\d+", match["numbers"])]
        elif match.group().startswith("</"):
            if opened:
                parts.append(_closed(parts, *opened.pop()))
        elif (end := _tag_end(text, position)) >= 0:
            opened.append((text[position:end], len(parts)))
            position = end + 1
            if text[end - 1] == "/":
                parts.append(_closed(parts, *opened.pop()))
        elif _is_broken_off(text, position):
            position = len(text)
        else:
            parts.append(match.group())
    parts.append(text[position:])
    while opened:
        parts.append(_closed(parts, *opened.pop()))
    return [part for part in parts if part != ""]


def _tag_end(text: str, start: int) -> int:
    """Return where the ``>`` of a tag is: the first behind a quotation mark, else the first."""
    stops = [text.find("<cite", start, start + MAX_TAG), text.find("</cite", start, start + MAX_TAG)]
    limit = min([stop for stop in stops if stop >= 0], default=start + MAX_TAG)
    first = at = text.find(">", start, limit)
    while at >= 0:
        if text[max(start, at - 8) : at].rstrip(" \t\n/")[-1:] in tuple(_MARKS):
            return at
        at = text.find(">", at + 1, limit)
    return first


def _is_broken_off(text: str, start: int) -> bool:
    rest = text[start : start + MAX_TAG]
    return start + len(rest) == len(text) and not any(sign in rest for sign in ("<", ">", "\n\n"))


def _closed(parts: list[str | Marker], attributes: str, start: int) -> Marker:
    found = {
        name.lower(): html.unescape(next(filter(None, values), ""))
        for name, *values in _ATTRIBUTE.findall(attributes)
    }
    claim = "".join(part for part in parts[start:] if isinstance(part, str)).strip()
    doc_id = found.get("doc_id") or found.get("docid") or found.get("id") or ""
    return Marker(doc_id.strip(), found.get("quote", "").strip(), claim or _sentence(parts))


def _sentence(parts: list[str | Marker]) -> str:
    """Return the last sentence of what was read so far, without the bullet of its line."""
    tail = ""
    for part in reversed(parts):
        if isinstance(part, str):
            tail = part[-2 * MAX_TAG :] + tail
        if len(tail) >= MAX_TAG:
            break
    tail = tail.rstrip()
    ends = list(sentence_ends(tail))
    sentence = tail[ends[-2] :] if len(ends) > 1 else tail
    return _BULLET.sub("", sentence.strip(), count=1)
