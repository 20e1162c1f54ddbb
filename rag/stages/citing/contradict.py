"""Contradiction check: numbers and negations in which a claim differs from its source."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_NUMBER = re.compile(
    r"\d+(?:[.,:]\d+)*|第?[一二三四五六七八九十百千万亿两零〇]{2,}|第[一二三四五六七八九十]"
)
# Words with a sign of denial in them that deny nothing.
_NO_DENIAL = re.compile(
    r"不仅|不但|不断|不同|不久|不过|不少|不禁|不论|不管|不止|不只|无论|无线|无数|无疑|无非|未来|非常|非洲|是否|"
    r"能否|not only|no doubt|no\. ?\d|no less"
)
_DENIAL = re.compile(
    r"[不没未无非勿莫否]|禁止|严禁|缺乏|拒绝"
    r"|\b(?:not|never|no|cannot|without|neither|nor|none|nobody|nothing)\b|n['’]t\b"
)
_OPPOSITES = (
    ("以上", "以下"),
    ("之前", "之后"),
    ("以前", "以后"),
    ("增加", "减少"),
    ("上升", "下降"),
    ("最大", "最小"),
    ("最多", "最少"),
    ("最高", "最低"),
    ("允许", "禁止"),
    ("大于", "小于"),
    ("高于", "低于"),
    ("多于", "少于"),
    ("before", "after"),
    ("more", "less"),
    ("more", "fewer"),
    ("above", "below"),
    ("must", "may"),
    ("increase", "decrease"),
    ("increased", "decreased"),
    ("increases", "decreases"),
    ("higher", "lower"),
    ("maximum", "minimum"),
    ("most", "least"),
    ("always", "never"),
    ("all", "none"),
    ("open", "close"),
    ("allowed", "forbidden"),
    ("largest", "smallest"),
    ("first", "last"),
    ("highest", "lowest"),
    ("oldest", "youngest"),
    ("best", "worst"),
)


def contradicts(claim: str, region: str, around: str) -> bool:
    """Return whether ``claim`` has numbers, denials or opposites that its source does not have.

    ``region`` is the part of the source that the claim takes up, ``around`` the whole of what it
    was found in. A denial of ``region`` that the claim leaves out is one too.
    """
    said, part, whole = map(_plain, (claim, region, around))
    if _numbers(said) - _numbers(whole):
        return True
    denials = _denials(said)
    if denials > _denials(whole) or denials < _denials(part):
        return True
    return any(
        _has(said, one) and not _has(said, other) and _has(part, other) and not _has(whole, one)
        for pair in _OPPOSITES
        for one, other in (pair, pair[::-1])
    )


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _numbers(text: str) -> Counter[str]:
    # 1,000 and 1000 are the same, 1.5 and 15 are not.
    return Counter(re.sub(r",(?=\d{3})", "", number) for number in _NUMBER.findall(text))


def _denials(text: str) -> int:
    return len(_DENIAL.findall(_NO_DENIAL.sub(" ", text)))


def _has(text: str, word: str) -> bool:
    if word.isascii():
        return bool(re.search(rf"\b{word}\b", text))
    return word in text
