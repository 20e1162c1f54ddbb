"""References of a question: the codes, articles, years and names that its answer has to mention.

They are compared as people write them: HX-900, HX 900 and hx900 are one code; 第十二条, 第12条 and
Article 12 are one number of an article.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz

from rag.core.analysis import MissingTerm
from rag.core.hits import Hit
from rag.stages.query.entities import IDENTIFIER, find_mentions
from rag.stages.text.terms import index_terms, is_han, is_stop_word

MAX_REFERENCES = 4
# What is less like a missing one is not its nearest.
MIN_LIKENESS = 60.0
_MAX_TEXT = 40_000
_SEPARATORS = r"[-_/.:\s]?"
_PIECES, _WRITTEN = re.compile(r"[A-Za-z]+|\d+"), re.compile(r"[A-Za-z\d]+")
# Parts of other kinds are headings, which may be written in any way, or without a number.
_ARTICLE = re.compile(
    r"第\s*(\d+|[〇零一二三四五六七八九十百千两兩]+)\s*[条條款]"
    r"|(?:article|clause|§)\s*(\d+)(?![.\d])",
    re.I,
)
_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
_NAME = re.compile(r"(?<![\w.-])[A-Z][a-z]{2,}(?:\s+[A-Z][a-z]{2,})*(?![\w-])")
_LATIN_NAME = re.compile(
    r"(?<![A-Za-z\d.-])[A-Z][A-Za-z]{2,}(?:\s+[A-Z][A-Za-z]{2,})*(?![A-Za-z\d-])"
)
_HAN, _MOST_CAPITALS = re.compile(r"[\u4e00-\u9fff]"), 0.75
_CALENDAR = re.compile(
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)(?:day)?"
)
_HAN_DIGITS = "零一二三四五六七八九"
_HAN_VALUES = {
    **{digit: value for value, digit in enumerate(_HAN_DIGITS)},
    "〇": 0,
    "两": 2,
    "兩": 2,
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A thing that a question names; ``kind`` is identifier, article, date or name.

    A text holds it where ``pattern`` is found. Each of ``lookups`` are words that such a text has
    in the index, all of them.
    """

    text: str
    kind: str
    pattern: str
    lookups: tuple[tuple[str, ...], ...]

    def is_in(self, text: str) -> bool:
        """Return whether a text mentions it."""
        return bool(_compiled(self.pattern).search(text))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.I | re.M)


def find_references(query: str) -> list[Reference]:
    """Return the first few things that a question names, each once, in its order."""
    found: dict[str, Reference] = {}
    for mention in find_mentions(query, {}):
        if mention.type == "identifier":
            found.setdefault(mention.value, _identifier(mention.value))
        elif mention.type == "section" and (article := _ARTICLE.search(mention.value)):
            found.setdefault(mention.value, _article(mention.value, article[1] or article[2]))
        elif mention.type == "date" and (year := _YEAR.search(mention.value)):
            own = year.group()
            found.setdefault(own, Reference(own, "date", rf"(?<!\d){own}(?!\d)", ((own,),)))
    for name in _names(query):
        if not any(name in other for other in found):
            found.setdefault(name, _name(name))
    return list(found.values())[:MAX_REFERENCES]


def missing_references(references: Iterable[Reference], hits: Sequence[Hit]) -> list[Reference]:
    """Return the references that no hit mentions, in its text, its headings or its file's name."""
    named = list(references)
    texts = [_text_of(hit) for hit in hits] if named else []
    return [one for one in named if not any(one.is_in(text) for text in texts)]


def nearest_mention(reference: Reference, hits: Sequence[Hit]) -> MissingTerm:
    """Return a missing reference with the most similar code that the hits mention."""
    if reference.kind != "identifier":
        return MissingTerm(reference.text)
    text = "\n".join(_text_of(hit) for hit in hits)[:_MAX_TEXT]
    wanted = reference.text.casefold()
    scored = [
        (fuzz.ratio(wanted, match.group().casefold()), match.group())
        for match in IDENTIFIER.finditer(text)
    ]
    best, nearest = max(scored, default=(0.0, ""), key=lambda pair: pair[0])
    return MissingTerm(reference.text, nearest if best >= MIN_LIKENESS else "")


def is_written_alike(query: str, hits: Sequence[Hit]) -> bool:
    """Return whether the hits are in the script of the question."""
    asked = is_han(query)
    return all(is_han(hit.text) == asked for hit in hits[:3])


def _text_of(hit: Hit) -> str:
    return "\n".join((hit.file_name, *hit.heading_path, hit.text))


def _identifier(value: str) -> Reference:
    pieces = _PIECES.findall(value)
    pattern = rf"(?<![A-Za-z\d]){_SEPARATORS.join(map(re.escape, pieces))}(?![A-Za-z\d])"
    # Parts are in the index beside a joined code, which has none where nothing joins them.
    lookups = _folded(_WRITTEN.findall(value)), _folded(["".join(pieces)])
    return Reference(value, "identifier", pattern, tuple(dict.fromkeys(lookups)))


def _folded(pieces: Sequence[str]) -> tuple[str, ...]:
    return tuple(term for piece in pieces for term in index_terms(piece))


def _article(value: str, number: str) -> Reference:
    """Return a reference to a numbered article, whichever language its number is written in."""
    written = _numerals(number)
    either = "|".join(re.escape(one) for one in written)
    pattern = (
        rf"第\s*(?:{either})\s*[条條款]"
        rf"|(?:\b(?:article|art\.|clause|section|sec\.)|§)\s*(?:{either})(?![\d.]*\d|[A-Za-z])"
        rf"|^\s*(?:{either})(?:[.、)\s]|$)"
    )
    forms = [value, *(f"第{one}条" for one in written), f"article {written[-1]}"]
    lookups = dict.fromkeys(tuple(index_terms(form)) for form in forms)
    lookups[tuple(index_terms(value, is_simplified=False))] = None
    return Reference(value, "article", pattern, tuple(lookups))


def _numerals(number: str) -> tuple[str, ...]:
    """Return a number in both ways of writing it, as far as it is a small whole one."""
    if number.isdecimal() and number.isascii() and 0 < int(number) < 1000:
        return number, _in_han(int(number))
    value = _from_han(number)
    return (number,) if value is None else tuple(dict.fromkeys((number, str(value))))


def _in_han(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    tens, ones = divmod(rest, 10)
    text = f"{_HAN_DIGITS[hundreds]}百" if hundreds else ""
    if tens:
        text += "十" if tens == 1 and not hundreds else f"{_HAN_DIGITS[tens]}十"
    elif hundreds and ones:
        text += "零"
    return text + (_HAN_DIGITS[ones] if ones else "")


def _from_han(number: str) -> int | None:
    total = digit = 0
    for character in number:
        if character in _HAN_VALUES:
            digit = _HAN_VALUES[character]
        elif unit := {"十": 10, "百": 100, "千": 1000}.get(character):
            total, digit = total + (digit or 1) * unit, 0
        else:
            return None
    return total + digit or None


def _names(query: str) -> list[str]:
    """Return names in Latin script: capitalised words that do not begin the question."""
    if _HAN.search(query):
        return [match.group() for match in _LATIN_NAME.finditer(query)]
    words = re.findall(r"[A-Za-z][\w'’-]*", query)
    n_capital = sum(word[0].isupper() for word in words)
    if n_capital > _MOST_CAPITALS * len(words):
        # A title, or names alone: capitals tell nothing.
        return []
    found = []
    for match in _NAME.finditer(query):
        start, end = match.span()
        name = match.group()
        if not query[:start].strip():
            # A sentence's first word is written so in any case.
            name = name.partition(" ")[2]
        if name and not _CALENDAR.fullmatch(name) and not is_stop_word(query, end - len(name), end):
            found.append(name)
    return found


def _name(name: str) -> Reference:
    # The beginning of each word will do: names are bent (Germany, German).
    stems = [word[: max(4, len(word) - 2)] for word in name.split()]
    pattern = "".join(rf"(?=[\s\S]*(?<![A-Za-z\d]){re.escape(stem)})" for stem in stems)
    return Reference(name, "name", rf"\A{pattern}", (_folded(name.split()),))
