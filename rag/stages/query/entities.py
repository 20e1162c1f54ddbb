"""Entity recognition in queries: mentions with type, value and position.

Names of the vocabulary come first, the longest before shorter ones; then what patterns know:
title, quote, chapter, section, page, date, quantity, identifier, outline.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rag.core.analysis import CONTENT_TYPES
from rag.stages.text.normalize import to_simplified

MAX_NAME = 200
_HAN_NUMBER = "〇零一二三四五六七八九十百千两"
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_ENGLISH_NUMBER = "(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
# What was found first keeps its place; a later pattern finds nothing inside it.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("title", re.compile(r"《(?P<value>[^《》]{1,100})》")),
    (
        "quote",
        re.compile(
            r"“(?P<a>[^“”]{1,200})”|\"(?P<b>[^\"]{1,200})\"|「(?P<c>[^「」]{1,200})」"
            r"|『(?P<d>[^『』]{1,200})』|＂(?P<e>[^＂]{1,200})＂|(?<!\w)‘(?P<f>[^‘’]{2,200})’(?!\w)"
        ),
    ),
    (
        "chapter",
        re.compile(
            rf"第\s*[\d{_HAN_NUMBER}]{{1,8}}\s*[章回卷幕]"
            rf"|(?i:\bchapter\s+(?:\d{{1,4}}|[ivxlc]{{1,6}}|{_ENGLISH_NUMBER})\b|\bch\.\s*\d{{1,4}})"
        ),
    ),
    (
        "section",
        re.compile(
            rf"第\s*[\d{_HAN_NUMBER}]{{1,8}}\s*(?:条|節|节|款|篇|部分)"
            r"|(?<![\d.])\d{1,3}(?:\.\d{1,3}){1,4}\s*[节節条款]"
            rf"|(?:附录|附錄|附件)\s*(?:[A-Z\d]{{1,3}}(?![A-Za-z])|[{_HAN_NUMBER}])"
            r"|(?i:\b(?:section|sec\.|clause|article|paragraph|appendix|annex|schedule)\s+|§\s*)"
            r"(?:\d{1,4}(?:\.\d{1,3})*(?:\([a-z\d]{1,3}\))*(?!\w)|[A-Z]\b)"
        ),
    ),
    ("page", re.compile(rf"第\s*[\d{_HAN_NUMBER}]{{1,8}}\s*[页頁]|(?i:\bpage\s+\d{{1,5}})\b")),
    (
        "date",
        re.compile(
            r"(?<!\d)\d{4}\s*年(?:\s*\d{1,2}\s*月(?:份|\s*\d{1,2}\s*[日号號])?)?"
            r"|[〇零一二三四五六七八九]{4}年|(?<!\d)\d{1,2}\s*月\s*\d{1,2}\s*[日号號]"
            r"|(?<![\w.-])\d{4}([-/.])\d{1,2}\1\d{1,2}(?![\w-])"
            rf"|(?i:\b(?:{_DAY}\s+(?:of\s+)?{_MONTH}\b\.?(?:,?\s+\d{{4}})?"
            rf"|{_MONTH}\b\.?\s+(?:{_DAY}(?!\d)(?:,?\s+\d{{4}})?|\d{{4}})))(?!\d)"
            r"|(?<![\w.,-])(?:1[5-9]|20)\d\d(?![\w-]|[.,]\d)"
        ),
    ),
    (
        "quantity",
        re.compile(
            r"(?<![\w.])\d+(?:[.,]\d+)*\s*(?:%|％|‰|°[CF]|℃|百?万元|亿元|元|万|亿|个月|小时|分钟|公斤"
            r"|千克"
            r"|公里|厘米|毫米|毫升|千瓦|兆帕|年|周|天|秒|吨|克|米|升|度|伏|瓦|字|页|岁)"
            rf"|(?<![第哪几每这那某上下])[{_HAN_NUMBER}半]{{1,6}}(?:个月|小时|分钟|公斤|千克|公里|厘米"
            rf"|毫米|毫升|千瓦|年|周|天|秒|吨|岁"
            r"|万元|亿元)(?!级)|百分之[\d一二三四五六七八九十]{1,4}|[$€£¥￥]\s?\d+(?:[.,]\d+)*"
            r"|\b(?:USD|EUR|GBP|CNY|RMB|JPY)\s?\d+(?:[.,]\d+)*"
            r"|(?<![\w.])(?<![A-Z]\s)\d+(?:[.,]\d+)*\s?(?:(?i:percent|bar|psi|[kmh]?pa|rpm|[kmg]?hz|[kmgt]b|usd|eur"
            r"|gbp|cny|rmb|(?:millisecond|second|minute|hour|day|week|month|year|word|page|dollar|euro"
            r"|meter|metre|litre|liter|inch|mile|pound|kilogram|gram)(?:e?s)?|inches|feet)"
            r"|[kmM]?[WV]|kWh|mA|A|[mck]?m|k?g|mg|ml|l|°)(?!\w)"
        ),
    ),
    (
        "identifier",
        re.compile(
            r"(?<![\w-])(?!USD|EUR|GBP|CNY|RMB|JPY)[A-Z]{2,6}(?:/[A-Z]{1,3})?\s\d{2,6}(?:[-.:]\d+)*(?![\w])"
            r"|(?<![\w/.-])(?=[\w/.:-]*\d)(?=[\w/.:-]*[A-Za-z])(?![\w]*\d(?:st|nd|rd|th)\b)"
            r"(?:[A-Za-z\d]+[-_/.:]){1,8}[A-Za-z\d]*\d[A-Za-z\d]*(?:[-_/.:][A-Za-z\d]+){0,8}(?!\w)"
            r"|(?<![\w/.-])(?:[A-Za-z\d]+[-_/:])*[A-Za-z]*\d[A-Za-z\d]*[-_/:][A-Za-z\d]*[A-Za-z]"
            r"[A-Za-z\d]*(?:[-_/:][A-Za-z\d]+)*(?!\w)"
            r"|(?<![\w.-])[A-Za-z]{1,8}\d{2,}[A-Za-z\d]*(?!\w)|(?<![\w.-])0x[\da-fA-F]{2,}(?!\w)"
            r"|(?<![\w.,-])v?\d+\.\d+\.\d+(?:\.\d+)*(?![\w])|(?<![\w.,-])\d{5,}(?![\w]|[.,]\d)",
            re.ASCII,
        ),
    ),
    ("outline", re.compile(r"大纲|大綱|提纲|提綱|(?i:\boutlines?\b)")),
)
# Part numbers, codes and versions.
IDENTIFIER = dict(_PATTERNS)["identifier"]
_LATIN = re.compile(r"[^\W_\u2e80-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Mention:
    """``query[start:end]`` names a thing; ``value`` is it as written, without quotation marks."""

    type: str
    value: str
    start: int
    end: int
    is_named: bool = False
    """Whether the vocabulary knows it."""


def find_mentions(query: str, vocabulary: Mapping[str, Any]) -> list[Mention]:
    """Return what the query names, in order; names are compared by width and case folded.

    ``vocabulary`` maps a type to its names; whatever else stands in it is passed over. A name of
    two types gives two mentions.
    """
    taken = bytearray(len(query))
    found: list[Mention] = []
    for start, end, types in _names_in(query, _index(_frozen(vocabulary))):
        if not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            found += [Mention(kind, query[start:end], start, end, True) for kind in types]
    # A character stands for each, so that places stay.
    simplified = to_simplified(query)
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(simplified):
            start, end = match.span()
            inner = next((name for name, group in match.groupdict().items() if group), 0)
            value = query[slice(*match.span(inner))]
            is_framed = kind in ("title", "quote")
            if all(taken[start:end]) or (any(taken[start:end]) and not is_framed):
                continue
            if is_framed and sum(taken[start:end]) == len(value):
                continue  # The name alone stands in the marks.
            if value.strip():
                taken[start:end] = b"\1" * (end - start)
                found.append(Mention(kind, value.strip(), start, end))
    return sorted(found, key=lambda mention: (mention.start, -mention.end))


def _frozen(vocabulary: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    frozen = []
    for kind, names in vocabulary.items():
        listed = [names] if isinstance(names, str) else names
        is_list = isinstance(listed, (list, tuple, set, frozenset))
        if is_list and not str(kind).startswith(CONTENT_TYPES):
            frozen.append((str(kind), tuple(name for name in listed if isinstance(name, str))))
    return tuple(frozen)


@dataclass(frozen=True, slots=True)
class _Names:
    types: Mapping[str, tuple[str, ...]]
    lengths: Mapping[str, tuple[int, ...]]
    """By first character, the longest first."""


@lru_cache(maxsize=64)
def _index(vocabulary: tuple[tuple[str, tuple[str, ...]], ...]) -> _Names:
    types: dict[str, tuple[str, ...]] = {}
    lengths: dict[str, set[int]] = {}
    for kind, names in vocabulary:
        for name in names:
            folded = _fold(name.strip())[0]
            if 0 < len(folded) <= MAX_NAME and kind not in types.get(folded, ()):
                types[folded] = (*types.get(folded, ()), kind)
                lengths.setdefault(folded[0], set()).add(len(folded))
    ordered = {first: tuple(sorted(sizes, reverse=True)) for first, sizes in lengths.items()}
    return _Names(types, ordered)


def _names_in(query: str, names: _Names) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield each name that stands in the query, the longest first."""
    folded, origins = _fold(query)
    matches = []
    for at, first in enumerate(folded):
        for size in names.lengths.get(first, ()):
            types = names.types.get(folded[at : at + size])
            if types and _stands_alone(folded, at, at + size):
                matches.append((size, at, types))
    for size, at, types in sorted(matches, key=lambda match: (-match[0], match[1])):
        if origins is None:
            yield at, at + size, types
        else:
            yield origins[at], origins[at + size - 1] + 1, types


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether Latin letters and digits at the ends of a name do not go on outside it."""

    def joined(left: str, right: str) -> bool:
        return bool(_LATIN.match(left) and _LATIN.match(right))

    is_open = start > 0 and joined(text[start - 1], text[start])
    return not is_open and not (end < len(text) and joined(text[end - 1], text[end]))


def _fold(text: str) -> tuple[str, list[int] | None]:
    """Return the folded text and each folded character's origin; None where they are the same."""
    if text.isascii():
        return text.lower(), None
    simplified = to_simplified(text)
    pieces = [unicodedata.normalize("NFKC", character).casefold() for character in simplified]
    if all(len(piece) == 1 for piece in pieces):
        return "".join(pieces), None
    return "".join(pieces), [at for at, piece in enumerate(pieces) for _ in piece]
