"""Citation markers: read from an answer as a model writes it, whole or streamed.

Two are understood: ``<cite doc_id="doc_01" quote="…">claim</cite>`` and a bare ``[n]``, also
written ``[doc_01]``, ``【1】`` or ``[1, 2]``.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from rag.stages.text.sentences import sentence_ends

# A quote's own marks are often left as they are: the last one before the next name is the end.
_ATTRIBUTE = re.compile(
    r"(\w+)\s*[=＝]\s*(?:\"(.*?)\"|'(.*?)'|[“”](.*?)[“”]|[‘’](.*?)[‘’]|[「『](.*?)[」』]|＂(.*?)＂"
    r"|([\w-]+))"
    r"(?=\s+\w+\s*[=＝]\s*[\"'“”‘’「『＂\w]|\s*/?\s*$)",
    re.S,
)
# Marks that a model escaped as it would inside HTML or JSON.
_ESCAPED_MARK = re.compile(r"(?<==)\s*(?:&quot;|&#34;|&#x22;|&#39;|&apos;|\\[\"'])", re.I)
# Where one stands plain, escaped ones belong to what is quoted.
_PLAIN_MARK = re.compile(r"=\s*[\"'“”‘’「]")


def read_attributes(text: str) -> dict[str, str]:
    """Return each attribute by its name in lower case, in any order and any quotation marks.

    Escapes are resolved. Never raises; what is no attribute is passed over.
    """
    if _ESCAPED_MARK.search(text) and not _PLAIN_MARK.search(text):
        text = html.unescape(text).replace('\\"', '"').replace("\\'", "'")
    return {
        name.lower(): html.unescape(next(filter(None, values), ""))
        for name, *values in _ATTRIBUTE.findall(text)
    }


MAX_TAG = 4000
MAX_DEPTH = 8
_MAX_SENTENCE = 1000
_START = re.compile(r"[<\[【［]")
_TAG = re.compile(r"<cite(?=[\s/>])|</cite\s{0,20}>", re.I)
_TAG_BEGUN = re.compile(r"<(?:c(?:i(?:te?)?)?|/(?:c(?:i(?:t(?:e\s{0,20})?)?)?)?)?", re.I)
_ITEM = r"\s{0,3}\^?(?:doc[_-]?)?\d{1,3}"
_NUMBERS = re.compile(
    rf"[\[【［]({_ITEM}(?:\s{{0,3}}[,，、]{_ITEM}){{0,19}})\s{{0,3}}[\]】］](?!\()", re.I
)
_NUMBERS_BEGUN = re.compile(
    rf"[\[【［](?:{_ITEM}\s{{0,3}}[,，、]){{0,19}}\s{{0,3}}\^?(?:d|do|doc|doc[_-])?"
    r"(?:(?<!\d)\d{1,3}\s{0,3}[\]】］]?)?",
    re.I,
)
_NUMBER = re.compile(r"(?:doc[_-]?)?\d+", re.I)
_NEXT_TAG = re.compile(r"</?cite", re.I)
# A tag ends with the first ``>`` behind a quotation mark; a quote may hold others.
_MARKED_END = re.compile("[\"'“”‘’「」『』＂][ \t\n/]{0,7}>")
_BULLET = re.compile(r"\A(?:[-*•>#]+\s+|\d{1,2}(?:[.)]\s+|、))+")
# Models send what neither a database nor a browser can take: NUL and halves of characters.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@dataclass(frozen=True, slots=True)
class Marker:
    """One citation as written: which document, which words, and what they are to prove."""

    doc_id: str
    quote: str
    claim: str


def read_markers(text: str) -> list[str | Marker]:
    """Return the answer in order: what is read, and markers where they end.

    Never raises: what is no marker stays text, a tag left open ends with the text, and a tag that
    breaks off at the end of the text is dropped, like NUL and halves of characters.
    """
    reader = MarkerReader()
    return reader.feed(text, is_last=True)


class MarkerReader:
    """Reads an answer piece by piece; whatever the pieces, the result is the same.

    At most a tag of 4,000 characters is held back; a ``<`` or ``[`` that begins no marker is let
    go with the character that shows it.
    """

    def __init__(self) -> None:
        self._buffer = self._half = self._tail = ""
        self._parts: list[str | Marker] = []
        self._run: list[str] = []
        self._opened: list[tuple[str, list[str]]] = []

    def feed(self, piece: str, *, is_last: bool = False) -> list[str | Marker]:
        """Return what ``piece`` completes: texts to show and markers, in order."""
        piece = self._half + piece
        self._half = piece[-1] if piece and "\ud800" <= piece[-1] <= "\udbff" else ""
        self._buffer += _storable(piece[:-1] if self._half else piece)
        self._scan(is_last)
        if is_last:
            self._read(self._buffer)
            self._buffer = ""
            while self._opened:
                self._close()
        self._flush()
        parts, self._parts = self._parts, []
        return parts

    def _scan(self, is_last: bool) -> None:
        text, position = self._buffer, 0
        while match := _START.search(text, position):
            self._read(text[position : match.start()])
            end = self._token(text, match.start(), is_last)
            if end is None:
                self._buffer = text[match.start() :]
                return
            position = end
        self._read(text[position:])
        self._buffer = ""

    def _token(self, text: str, at: int, is_last: bool) -> int | None:
        """Read what begins at ``at`` and return where it ends; None while that is open."""
        if text[at] != "<":
            return self._numbers(text, at, is_last)
        match = _TAG.match(text, at)
        if match is None:
            return None if not is_last and _TAG_BEGUN.fullmatch(text, at) else self._sign(text, at)
        start = match.end()
        if text[at + 1] == "/":
            self._close()
            return start
        end = _tag_end(text, start, is_last)
        if end is None:
            return None
        if end >= 0:
            self._open(text[start:end])
            if text[end - 1] == "/":
                self._close()
            return end + 1
        if is_last and _is_broken_off(text, start):
            return len(text)
        self._read(match.group())
        return start

    def _numbers(self, text: str, at: int, is_last: bool) -> int | None:
        # Whether it is the text of a link shows with the next character.
        if not is_last and _NUMBERS_BEGUN.fullmatch(text, at):
            return None
        match = _NUMBERS.match(text, at)
        if match is None:
            return self._sign(text, at)
        self._flush()
        claim = self._sentence()
        self._parts += [Marker(number, "", claim) for number in _NUMBER.findall(match[1])]
        return match.end()

    def _sign(self, text: str, at: int) -> int:
        self._read(text[at])
        return at + 1

    def _read(self, text: str) -> None:
        if text:
            self._run.append(text)
            self._tail = (self._tail + text)[-_MAX_SENTENCE:]
            for _, claim in self._opened:
                claim.append(text)

    def _flush(self) -> None:
        if self._run:
            self._parts.append("".join(self._run))
            self._run = []

    def _open(self, attributes: str) -> None:
        self._flush()
        if len(self._opened) < MAX_DEPTH:
            self._opened.append((attributes, []))

    def _close(self) -> None:
        self._flush()
        if not self._opened:
            return
        attributes, texts = self._opened.pop()
        found = read_attributes(attributes)
        doc_id = found.get("doc_id") or found.get("docid") or found.get("id") or ""
        claim = "".join(texts).strip() or self._sentence()
        self._parts.append(Marker(doc_id.strip(), found.get("quote", "").strip(), claim))

    def _sentence(self) -> str:
        """Return the last sentence of the text, without the bullet of its line."""
        tail = self._tail.rstrip()
        ends = list(sentence_ends(tail))
        sentence = tail[ends[-2] :] if len(ends) > 1 else tail
        return _BULLET.sub("", sentence.strip(), count=1)


def _tag_end(text: str, start: int, is_last: bool) -> int | None:
    """Return where the ``>`` of a tag is, -1 if it has none, None while it may still come."""
    limit = start + MAX_TAG
    following = _NEXT_TAG.search(text, start, limit)
    stop = following.start() if following else limit
    if marked := _MARKED_END.search(text, start, stop):
        return marked.end() - 1
    if following or is_last or len(text) > limit:
        return text.find(">", start, stop)
    return None


def _is_broken_off(text: str, start: int) -> bool:
    rest = text[start : start + MAX_TAG]
    return start + len(rest) == len(text) and not any(sign in rest for sign in ("<", ">", "\n\n"))


def _storable(text: str) -> str:
    if not _UNSTORABLE.search(text):
        return text
    whole = _HALVES.sub(
        lambda match: match[0].encode("utf-16", "surrogatepass").decode("utf-16"), text
    )
    return _UNSTORABLE.sub("", whole)
