"""Answer sentence selection: scores the sentences of passages by how likely they answer a question.

The question's words by their rarity, in the sentence, in those before it and in its passage; words
of the expected answer type that the question does not have; against headlines, questions and
sentences that only repeat the question. The weights are a conditional logit's, rounded, fitted by
benchmarks/extractive on the halves to tune on.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Literal

from rag.stages.text.terms import STOP_WORDS, content_terms, index_terms, is_han

AnswerType = Literal["", "date", "duration", "number", "person", "place", "name"]

# The first that matches counts.
_PATTERNS: tuple[tuple[AnswerType, str], ...] = (
    (
        "duration",
        r"\bhow long\b(?! ago)"
        r"|\b(?:how many|number of) (?:year|month|week|day|hour|minute|second)s?\b"
        r"(?= (?:did|do|does|was|were|is|are|of))"
        r"|多久|多长时间|(?:多少|几)个?(?:年|月|天|小时|分钟|秒|周|星期)(?!前)",
    ),
    (
        "date",
        r"\bwhen\b|\bhow long ago\b"
        r"|\b(?:what|which) (?:\w+ )?(?:year|date|day|month|century|decade|season|time)\b"
        r"|什么时[候间]|何时|哪[一]?[年天日月]|几[年月日号点]|哪个(?:世纪|年代|月|月份|年份|日期)"
        r"|什么(?:年份|日期|时期|年代)|多少年前|时间是",
    ),
    (
        "number",
        r"\bhow (?:many|much|old|far|tall|high|deep|wide|large|big|fast|heavy|often|large)\b"
        r"|\bwhat (?:(?:is|was|were|are) the )?(?:\w+ )?(?:number|percent(?:age)?"
        r"|proportion|population|amount|price|cost|rate|score|size|height|length|width|weight"
        r"|distance|speed|temperature|fraction|rank|ratio|fee|salary|capacity|volume|age)\b"
        r"|多少|几[个位名次家种只条座本部所人元岁]|多[大高长远重快宽深厚]|第几|百分之几|人口|占比|比例"
        r"|什么(?:价格|比例|数字|分数)|几",
    ),
    ("person", r"\bwho(?:se|m)?\b|谁|哪[一]?[位名](?!数)|何人|什么人|(?:叫|是)什么名字的人"),
    (
        "place",
        r"\bwhere\b|\b(?:what|which) (?:\w+ )?(?:city|country|state|town|place|region|county"
        r"|continent|province|location|river|island|nation|village|area|street|stadium|venue)\b"
        r"|哪里|哪儿|何处|何地|在哪|什么地方|(?:哪|什么)[一]?[个座]?(?:城市|国家|地区|省|州|县|市|镇|地点|河|岛|大陆|洲|场馆|体育场)",
    ),
    (
        "name",
        r"\bwhat(?: \w+){0,3}(?: is| was| are| were)? (?:the )?"
        r"(?:name|title|named|called|term)\b|\bwhich (?:\w+ ){1,2}"
        r"|\bwhat (?:company|team|band|group|organi[sz]ation|person|player"
        r"|university|school|language|tribe|king|president|author|book|movie|film|channel)\b"
        r"|(?:什么|哪个|哪些|哪种|哪家|哪支|哪所|哪部)|叫(?:做|作)?什么|名字",
    ),
)
_ASKED = tuple((kind, re.compile(pattern, re.I)) for kind, pattern in _PATTERNS)
_YEAR = re.compile(
    r"(?<!\d)(?:1[0-9]\d\d|20\d\d)(?!\d)|\d{1,4}\s?(?:年|月|日|世纪|年代|BC|AD)|\d0s\b"
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|century|monday|tuesday|wednesday|thursday|friday|saturday|sunday|spring|summer|autumn|winter"
    r"|yesterday|today|tomorrow)\b|世纪|星期[一二三四五六日]|周[一二三四五六日]|[今昨明]天|[春夏秋冬]季"
    r"|[〇零一二三四五六七八九十]+[年月日]",
    re.I,
)
_LENGTH_OF_TIME = re.compile(
    r"\b(?:second|minute|hour|day|week|month|year|decade|centur)(?:s|ies|y)?\b"
    r"|[\d一二三四五六七八九十百千几两半数]\s?个?(?:秒|分钟|小时|天|周|星期|月|年|世纪)|[昼夜]",
    re.I,
)
_NUMBER = re.compile(
    r"\d+(?:[.,]\d+)*|[零一二三四五六七八九十百千万亿两半]+(?=[个位名次家种只条座本部所人元岁倍米年公英分吨%成])"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty"
    r"|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|trillions?|dozens?|half"
    r"|third|quarter|twice|once|both|first|second|no|none|several)\b",
    re.I,
)
_CAPITAL = re.compile(
    r"(?<![\w'’])[A-Z][\w'’.-]*(?:\s+(?:of|the|and|de|von|van|du)\s+[A-Z]|\s+[A-Z][\w'’.-]*)*"
)
_LATIN_IN_HAN = re.compile(r"[A-Za-z][\w.+-]+|[“《「『\"][^”》」』\"]{1,30}[”》」』\"]")
_KINDS_OF_HAN = {
    "person": ("nr", "nrt", "nrfg"),
    "place": ("ns", "nt"),
    "name": ("nr", "nrt", "nrfg", "ns", "nt", "nz", "j"),
}


def expected_answer_type(question: str) -> AnswerType:
    """Return what kind of words answers a question, an empty string where it does not tell."""
    plain = unicodedata.normalize("NFKC", question)
    return next((kind for kind, asked in _ASKED if asked.search(plain)), "")


@lru_cache(maxsize=4096)
def typed_mentions(kind: AnswerType, text: str) -> frozenset[str]:
    """Return what a text mentions of a type: of a question's own type those are no answer."""
    plain = unicodedata.normalize("NFKC", text)
    if kind in ("date", "duration", "number"):
        pattern = {"date": _YEAR, "duration": _LENGTH_OF_TIME, "number": _NUMBER}[kind]
        return frozenset(match[0].casefold() for match in pattern.finditer(plain))
    if kind in _KINDS_OF_HAN:
        return frozenset(_han_names(kind, plain) if is_han(plain) else _latin_names(plain))
    return frozenset()


def _latin_names(text: str) -> Iterator[str]:
    for match in _CAPITAL.finditer(text):
        words = match[0].split()
        is_first = (
            not text[: match.start()].rstrip(" “\"'(")
            or text[: match.start()].rstrip()[-1:] in ".!?\n"
        )
        if is_first and (words[0].casefold() in STOP_WORDS or len(words) == 1):
            words = words[1:]
        yield from (
            word.strip(".,'’").removesuffix("'s").casefold() for word in words if word[0].isupper()
        )


def _han_names(kind: str, text: str) -> Iterator[str]:
    wanted = _KINDS_OF_HAN[kind]
    for word, tag in _jieba().tag(text):
        if tag in wanted and len(word) > 1:
            yield word
    if kind != "place" or "·" in text:
        yield from (part for part in re.findall(r"[\u4e00-\u9fff]{1,6}·[\u4e00-\u9fff]{1,6}", text))
    if kind == "name":
        yield from (match[0].casefold() for match in _LATIN_IN_HAN.finditer(text))


@lru_cache(maxsize=1)
def _jieba() -> ModuleType:
    # Its dictionary takes a tenth of a second of every command that needs no word.
    import rjieba

    return rjieba


SHARE, BEFORE, PASSAGE = 5.0, 3.0, 3.0
TITLE, QUESTION = 2.0, 1.5
# What shares more than a half, or two thirds, of its words with the question, or has fewer than
# three, or six, words of its own.
ECHO, CLEAR_ECHO, FEW_WORDS = 1.9, 1.5, 2.0
TYPED: Mapping[AnswerType, float] = {
    "date": 1.6,
    "duration": 1.0,
    "number": 2.4,
    "person": 2.0,
    "place": 1.2,
    "name": 0.8,
}
# How much a word counts that stands in the sentence before, or the one before that.
_NEAR = (0.6, 0.4)
_ASKS = re.compile(r"\b(?:what|which|why|how)\b|什么|怎|哪|为何", re.I)
_STOPPED = re.compile(r"[。！？.!?…;；|][”\"'’)）」』]*\Z")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)、])\s|.*[:：]\s*\S")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class SourceSentence:
    """A sentence of a passage, the ``rank``-th from 0; ``place`` counts the passage's sentences."""

    doc_id: str
    rank: int
    passage: str
    text: str
    place: int = 0

    @cached_property
    def terms(self) -> Mapping[str, int]:
        """Return the search terms of the sentence."""
        return index_terms(self.text)

    @cached_property
    def content(self) -> Sequence[str]:
        """Return its terms without stop words."""
        return tuple(content_terms(self.text))


class SentenceScorer:
    """Scores the sentences of one question's passages."""

    def __init__(self, question: str, sentences: Sequence[SourceSentence]) -> None:
        self.question, self.sentences = question, sentences
        self._asked = content_terms(question)
        self._type = expected_answer_type(question)
        self._told = typed_mentions(self._type, question)
        self._digits = set(_DIGITS.findall(question))
        self._is_asking = bool(self._type) or bool(_ASKS.search(question))
        n = len(sentences)
        self._weights = {
            term: weight
            * math.log(1 + (n + 1) / (sum(term in one.terms for one in sentences) + 0.5))
            for term, weight in self._asked.items()
        }
        self._whole = sum(self._weights.values()) or 1.0
        self.shares = [self._share(one.terms) for one in sentences]

    def scores(self) -> list[float]:
        """Return the score of each sentence; more is better."""
        passages: dict[int, set[str]] = {}
        places: dict[tuple[int, int], SourceSentence] = {}
        for one in self.sentences:
            passages.setdefault(one.rank, set()).update(one.terms)
            places[one.rank, one.place] = one
        whole = {rank: self._share(terms) for rank, terms in passages.items()}
        found = []
        for one, share in zip(self.sentences, self.shares, strict=True):
            near = [places.get((one.rank, one.place - n)) for n in (1, 2)]
            before = self._share_before(one, [other.terms if other else {} for other in near])
            score = SHARE * share + BEFORE * before + PASSAGE * whole[one.rank]
            found.append(score + self._by_kind(one))
        return found

    def _share(self, terms: Mapping[str, int] | set[str]) -> float:
        return sum(value for term, value in self._weights.items() if term in terms) / self._whole

    def _share_before(self, one: SourceSentence, near: Sequence[Mapping[str, int]]) -> float:
        """Return how much of what a sentence lacks stands in those before it."""
        total = 0.0
        for term, value in self._weights.items():
            if term not in one.terms:
                shares = (by for by, terms in zip(_NEAR, near, strict=True) if term in terms)
                total += value * max(shares, default=0.0)
        return total / self._whole

    def _by_kind(self, one: SourceSentence) -> float:
        """Return what speaks for a sentence by what it is, and against it."""
        has_type = bool(typed_mentions(self._type, one.text) - self._told)
        score = TYPED.get(self._type, 0.0) * has_type
        if one.text.rstrip()[-1:] in ("?", "？"):
            score -= QUESTION
        elif not _STOPPED.search(one.text.rstrip()) and not _ITEM.match(one.text):
            score -= TITLE
        is_told = has_type and self._type in ("date", "number", "duration")
        return score if is_told or not self._is_asking else score - self._echo(one)

    def _echo(self, one: SourceSentence) -> float:
        """Return what a sentence loses that says hardly more than the question."""
        n_asked = sum(term in self._asked for term in one.content)
        share, n_new = n_asked / max(1, len(one.content)), len(one.content) - n_asked
        lost = ECHO * (share > 0.5) + CLEAR_ECHO * (share > 0.65)
        return lost + FEW_WORDS * ((n_new < 3) + (n_new < 6))
