"""What an answer says it cites. In: an answer as a model writes it. Out: its text and markers.

Two markers are understood: ``<cite doc_id="doc_01" quote="…">claim</cite>`` and a bare ``[n]``.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from rag.stages.sentences import sentence_ends

MAX_TAG = 4000
MAX_DEPTH = 8
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
    reader = _Reader()
    position = 0
    while match := _TOKEN.search(text, position):
        reader.read(text[position : match.start()])
        position = match.end()
        if match["numbers"]:
            reader.number(re.findall(r"\d+", match["numbers"]))
        elif match.group().startswith("</"):
            reader.close()
        elif (end := _tag_end(text, position)) >= 0:
            reader.open(text[position:end])
            if text[end - 1] == "/":
                reader.close()
            position = end + 1
        elif _is_broken_off(text, position):
            position = len(text)
        else:
            reader.read(match.group())
    reader.read(text[position:])
    while reader.opened:
        reader.close()
    return reader.parts


class _Reader:
    """What was read so far; ``tail`` is the end of its text, for the sentence of a marker."""

    def __init__(self) -> None:
        self.parts: list[str | Marker] = []
        self.opened: list[tuple[str, int]] = []
        self.tail = ""

    def read(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.tail = (self.tail + text)[-MAX_TAG:]

    def number(self, numbers: list[str]) -> None:
        claim = self._sentence()
        self.parts += [Marker(number, "", claim) for number in numbers]

    def open(self, attributes: str) -> None:
        if len(self.opened) < MAX_DEPTH:
            self.opened.append((attributes, len(self.parts)))

    def close(self) -> None:
        if not self.opened:
            return
        attributes, start = self.opened.pop()
        found = {
            name.lower(): html.unescape(next(filter(None, values), ""))
            for name, *values in _ATTRIBUTE.findall(attributes)
        }
        claim = "".join(part for part in self.parts[start:] if isinstance(part, str)).strip()
        doc_id = found.get("doc_id") or found.get("docid") or found.get("id") or ""
        quote = found.get("quote", "").strip()
        self.parts.append(Marker(doc_id.strip(), quote, claim or self._sentence()))

    def _sentence(self) -> str:
        """Return the last sentence of the text, without the bullet of its line."""
        tail = self.tail.rstrip()
        ends = list(sentence_ends(tail))
        sentence = tail[ends[-2] :] if len(ends) > 1 else tail
        return _BULLET.sub("", sentence.strip(), count=1)


def _tag_end(text: str, start: int) -> int:
    """Return where the ``>`` of a tag is: the first behind a quotation mark, else the first."""
    stops = [
        text.find("<cite", start, start + MAX_TAG),
        text.find("</cite", start, start + MAX_TAG),
    ]
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
