"""Citation markers: read from an answer as a model writes it, whole or streamed.

Two are understood: ``<cite doc_id="doc_01" quote="…">claim</cite>``, unclosed and escaped ones
too, and a number in brackets: ``[1]``, ``[doc_01, doc_02]``, ``【1†source】``, ``[Source 1]``,
``（资料1）``. What a model copies of a form in place of words (``...``) is left out, and so are
tags that it wraps around its answer. Code has none.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from rag.stages.citing.wrapper_tags import WrapperTags
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
_START = re.compile(r"[<&\[【［(（]")
_TAG_NAMES = ("cite", "citation", "ref")
_NAMES = "|".join(_TAG_NAMES)
_TAG = re.compile(
    rf"(?:<|&lt;)(?:(?:{_NAMES})(?=[\s/>]|&gt;)|/(?:{_NAMES})\s{{0,20}}(?:>|&gt;))", re.I
)
# Every beginning of a tag, since a streamed text may end anywhere.
_TAG_BEGUN = frozenset(
    f"{sign}{slash}{name}"[:length]
    for sign in ("<", "&lt;")
    for slash in ("", "/")
    for name in _TAG_NAMES
    for length in range(1, len(sign + slash + name) + 1)
)
_END_BEGUN = re.compile(rf"(?:<|&lt;)/?(?:{_NAMES})(?:(?<=\w)\s{{0,20}})?(?:&(?:g(?:t)?)?)?", re.I)
_WORDS = re.findall(
    r"\w+",
    "references reference citations citation documents document passages passage sources source "
    "cites cite docs doc refs ref 参考资料 参考 来源 资料 文档 文献 引用 出处 片段",
)
_WORD = rf"(?:{'|'.join(_WORDS)})"
_WORD_BEGUN = "|".join(sorted({re.escape(w[:n]) for w in _WORDS for n in range(1, len(w) + 1)}))
_SIGN = r"\s{0,3}[:：#№_-]?\s{0,3}"
_ID = r"\^?(?:doc[_-]?)?\d{1,3}"
_ITEM = rf"\s{{0,3}}(?:{_WORD}{_SIGN}){{0,2}}{_ID}"
_AND = r"\s{0,3}(?:[,，、;；&]|and|和|与)"
_NOTE = r"(?:†[^\[\]【】\n]{0,40})?"
# In round brackets a bare number is no marker.
_NUMBERS = re.compile(
    rf"(?:[\[【［]|(?P<round>[(（])(?=\s{{0,3}}{_WORD}))"
    rf"(?P<items>{_ITEM}(?:{_AND}{_ITEM}){{0,19}}){_NOTE}\s{{0,3}}"
    r"(?(round)[)）]|[\]】］])(?!\()",
    re.I,
)
_NUMBERS_BEGUN = re.compile(
    rf"[\[【［(（](?:{_ITEM}{_AND}){{0,19}}\s{{0,3}}(?:{_WORD}{_SIGN}){{0,2}}"
    rf"(?:{_WORD_BEGUN}|\^?(?:d|do|doc[_-]?)?"
    rf"|{_ID}\s{{0,3}}(?:a|an|and|†[^\[\]【】\n]{{0,40}}\s{{0,3}})?[\]】］)）]?)",
    re.I,
)
_NUMBER = re.compile(r"(?:doc[_-]?)?\d+", re.I)
_NEXT_TAG = re.compile(rf"(?:<|&lt;)/?(?:{_NAMES})", re.I)
# A tag ends with the first ``>`` behind a quotation mark; a quote may hold others.
_MARKED_END = re.compile(
    "(?:[\"'“”‘’「」『』＂]|&(?:quot|#34|#39|apos);)[ \t\n/]{0,7}(>|&gt;)", re.I
)
_PLAIN_END = re.compile(">|&gt;")
# Without its ``>`` it ends with its attributes.
_ATTRIBUTES = re.compile(
    r"(?:\s{1,9}\w{1,20}\s?[=＝]\s?(?:\"[^\"<>]*\"|'[^'<>]*'|“[^”<>]*”|doc[_-]?\d{1,3}))+(?:\s{0,3}/)?"
)
# In place of a claim: an id, or the dots of a form.
_NO_CLAIM = re.compile(
    rf"\s{{0,3}}(?:[.…]{{1,6}}|[\[【]?\s?({_ID})\s?[\]】]?)\s{{0,3}}(?=(?:<|&lt;)/(?:{_NAMES}))",
    re.I,
)
_NO_CLAIM_BEGUN = re.compile(
    r"\s{0,3}(?:[.…]{1,6}|[\[【]?\s?\^?(?:d|do|doc[_-]?)?\d{0,3}\s?[\]】]?)?\s{0,3}"
    r"(?:(?:<|&(?:l(?:t;?)?)?)/?\w{0,8})?",
    re.I,
)
_DOC_ID_NAMES = ("doc_id", "docid", "id", "doc", "document", "source", "src", "ref")
_QUOTE_NAMES = ("quote", "text", "content", "quotation")
_BULLET = re.compile(r"\A(?:[-*•>#]+\s+|\d{1,2}(?:[.)]\s+|、))+")
# Models send what neither a database nor a browser can take: NUL and halves of characters.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@dataclass(frozen=True, slots=True)
class Marker:
    """One citation as written: which document, which words, and what they are to prove.

    A bare one quotes nothing and encloses nothing: its claim is the sentence so far. ``begins``
    is where an element opens; its claim follows.
    """

    doc_id: str
    quote: str
    claim: str
    is_bare: bool = field(default=False, compare=False)
    begins: bool = False


def read_markers(text: str) -> list[str | Marker]:
    """Return the answer in order: what is read, and markers where they end.

    Never raises: what is no marker stays text, a tag left open ends with the text, and a tag that
    breaks off at the end of the text is dropped, like NUL and halves of characters.
    """
    reader = MarkerReader()
    return reader.feed(text, is_last=True)


class MarkerReader:
    """Reads an answer piece by piece; whatever the pieces, the result is the same.

    At most a tag of 4,000 characters is held back; a ``<`` or ``[`` that begins no marker and no
    wrapper is let go with the character that shows it.
    """

    def __init__(self) -> None:
        self._buffer = self._half = self._tail = ""
        self._parts: list[str | Marker] = []
        self._run: list[str] = []
        self._opened: list[tuple[str, list[str]]] = []
        self._is_opening = False
        self._wrappers = WrapperTags()

    def feed(self, piece: str, *, is_last: bool = False) -> list[str | Marker]:
        """Return what ``piece`` completes: texts to show and markers, in order."""
        parts = self.feed_open(piece, is_last=is_last)
        return [part for part in parts if isinstance(part, str) or not part.begins]

    def feed_open(self, piece: str, *, is_last: bool = False) -> list[str | Marker]:
        """Return what ``piece`` completes, with a marker also where an element opens."""
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
        if self._is_opening:
            claimed = self._no_claim(text, 0, is_last)
            if claimed is None:
                return
            position = claimed
        while match := _START.search(text, position):
            self._read(text[position : match.start()])
            end = self._token(text, match.start(), is_last)
            if end is None:
                self._buffer = text[match.start() :]
                return
            position = end
            if self._opened and not self._opened[-1][1]:
                claimed = self._no_claim(text, position, is_last)
                if claimed is None:
                    self._buffer, self._is_opening = text[position:], True
                    return
                position = claimed
        self._read(text[position:])
        self._buffer = ""

    def _token(self, text: str, at: int, is_last: bool) -> int | None:
        """Read what begins at ``at`` and return where it ends; None while that is open.

        In code a number in brackets is none of ours, nor is a tag that does not both name and
        quote a document.
        """
        is_code = self._wrappers.is_code(text, at, is_last=is_last)
        if is_code is None:
            return None
        if text[at] not in "<&":
            return self._sign(text, at) if is_code else self._numbers(text, at, is_last)
        match = _TAG.match(text, at)
        if match is None:
            return self._other_tag(text, at, is_last)
        start = match.end()
        if match[0].lower().startswith(("</", "&lt;/")):
            if is_code and not self._opened:
                self._read(match[0])
            else:
                self._close()
            return start
        span = _tag_end(text, start, is_last)
        if span is None:
            return None
        if span and not (is_code and not all(_named(text[start : span[0]]))):
            end, after, has_claim = span
            self._open(text[start:end])
            if text[end - 1] == "/" or not has_claim:
                self._close()
            return after
        if is_last and _is_broken_off(text, start):
            return len(text)
        self._read(match.group())
        return start

    def _other_tag(self, text: str, at: int, is_last: bool) -> int | None:
        if not is_last and _is_tag_begun(text, at):
            return None
        # What a citation encloses are words of its source.
        end = at if self._opened else self._wrappers.end(text, at, is_last=is_last)
        return self._sign(text, at) if end == at else end

    def _no_claim(self, text: str, at: int, is_last: bool) -> int | None:
        """Return where the claim of the tag just opened begins; None while that is open."""
        self._is_opening = False
        attributes, texts = self._opened[-1]
        match = _NO_CLAIM.match(text, at)
        has_id = not read_attributes(attributes).keys().isdisjoint(_DOC_ID_NAMES)
        # Where the document is named a number alone is what is claimed.
        if match and not (has_id and match[0].strip().isdigit()):
            self._opened[-1] = (
                f"{attributes} doc_id={match[1]}" if match[1] else attributes,
                texts,
            )
            return match.end()
        if not is_last and _NO_CLAIM_BEGUN.fullmatch(text, at):
            self._is_opening = True
            return None
        return at

    def _numbers(self, text: str, at: int, is_last: bool) -> int | None:
        # Whether it is the text of a link shows with the next character.
        if not is_last and _NUMBERS_BEGUN.fullmatch(text, at):
            return None
        match = _NUMBERS.match(text, at)
        if match is None:
            return self._sign(text, at)
        self._flush()
        claim = self._sentence()
        numbers = _NUMBER.findall(match["items"])
        self._parts += [Marker(number, "", claim, is_bare=True) for number in numbers]
        return match.end()

    def _sign(self, text: str, at: int) -> int:
        self._read(text[at])
        return at + 1

    def _read(self, text: str) -> None:
        if text:
            self._wrappers.see(text)
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
            self._parts.append(Marker(*_named(attributes), "", begins=True))

    def _close(self) -> None:
        self._flush()
        if not self._opened:
            return
        attributes, texts = self._opened.pop()
        doc_id, quote = _named(attributes)
        enclosed = "".join(texts).strip()
        claim = enclosed or self._sentence()
        if doc_id or quote or claim:
            is_bare = not enclosed and not quote
            self._parts.append(Marker(doc_id, quote, claim, is_bare=is_bare))

    def _sentence(self) -> str:
        """Return the last sentence of the text, without the bullet of its line."""
        tail = self._tail.rstrip()
        ends = list(sentence_ends(tail))
        sentence = tail[ends[-2] :] if len(ends) > 1 else tail
        return _BULLET.sub("", sentence.strip(), count=1)


def _tag_end(text: str, start: int, is_last: bool) -> tuple[int, int, bool] | tuple[()] | None:
    """Return where the attributes of a tag end, where it does, and whether a claim may follow.

    Nothing where it has no end; None while it may still come.
    """
    limit = start + MAX_TAG
    following = _NEXT_TAG.search(text, start, limit)
    stop = following.start() if following else limit
    if marked := _MARKED_END.search(text, start, stop):
        return marked.start(1), marked.end(), True
    if not (following or is_last or len(text) > limit):
        return None
    unended = _ATTRIBUTES.match(text, start, stop)
    if (
        unended
        and not _PLAIN_END.match(text, unended.end())
        and not (is_last and text[unended.end() :].strip() and _is_broken_off(text, start))
    ):
        is_closed_later = following is not None and "/" in following[0]
        return unended.end(), unended.end(), is_closed_later
    plain = _PLAIN_END.search(text, start, stop)
    return (*plain.span(), True) if plain else ()


def _is_tag_begun(text: str, at: int) -> bool:
    begun = text[at : at + 32].lower()
    return begun in _TAG_BEGUN or bool(len(text) - at < 32 and _END_BEGUN.fullmatch(begun))


def _named(attributes: str) -> tuple[str, str]:
    """Return the document and the words that a tag names, empty where it does not."""
    found = {name: said for name, said in read_attributes(attributes).items() if _says(said)}
    bare = _NUMBER.search(attributes) if not found else None
    doc_id = next((found[name] for name in _DOC_ID_NAMES if name in found), bare[0] if bare else "")
    quote = next((found[name] for name in _QUOTE_NAMES if name in found), "")
    return doc_id.strip(), quote.strip()


def _says(value: str) -> bool:
    return bool(value.strip(".… "))


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


# A source's own markers are none of the answer's.
_OWN_TAG = re.compile(r"<(?=/?cite\b)", re.I)
_BARE_NUMBERS = re.compile(r"[\[［【](\s*\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\s*)[\]］】]")

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
    line = _BARE_NUMBERS.sub(r"(\1)", _OWN_TAG.sub("‹", " ".join(text.split())))
    is_marked = any(isinstance(part, Marker) for part in read_markers(line))
    return line.translate(_BRACKETS) if is_marked else line
