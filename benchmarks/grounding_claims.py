"""Grounding benchmark, its claims: sentences that contradict their source, and translations.

A change that applies to a sentence makes a claim that its source contradicts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping

from benchmarks.citation_changes import Change, says_the_same
from benchmarks.citation_quotes import Half
from rag.stages.text.sentences import sentence_spans

_UNITS = {
    "zh": "年 天|小时 分钟|公里 米|米 厘米|% 倍|公斤 克|美元 人民币|万 亿|月 年|英里 英尺|世纪 年",
    "en": "years days|hours minutes|miles feet|metres km|percent times|million billion|km cm"
    "|year month|days weeks|°C °F|months years|kg g",
}
_DENIALS = {
    "zh": "没有 有|不是 是|不能 能|必须 不必|能够 不能|是 不是|可以 不可以|需要 不需要|会 不会",
    "en": "is is_not|are are_not|was was_not|can cannot|were were_not|has has_never|had had_not"
    "|must must_not|will will_not|do do_not|cannot can|never always",
}
_OPPOSITES = {
    "zh": "以上 以下|之前 之后|增加 减少|最大 最小|最高 最低|北部 南部|东部 西部|上升 下降"
    "|最多 最少|早期 晚期|超过 低于|开始 结束|内部 外部|胜利 失败|增长 下降|最长 最短|高于 低于"
    "|大于 小于|允许 禁止",
    "en": "more less|before after|largest smallest|first last|increase decrease"
    "|increased decreased|highest lowest|north south|eastern western|always never|most least"
    "|high low|early late|older younger|inside outside|began ended|won lost|male female"
    "|higher lower|oldest youngest|above below|larger smaller|long short|positive negative",
}


def _pairs(words: str, *, both_ways: bool = True) -> list[tuple[str, str]]:
    pairs = [tuple(pair.replace("_", "~").split(" ")) for pair in words.split("|")]
    given = [(one.replace("~", " "), other.replace("~", " ")) for one, other in pairs]
    return given + [pair[::-1] for pair in given] if both_ways else given


def _swap(pairs: list[tuple[str, str]], before: str, quote: str, rng: random.Random) -> str:
    """Put one word of a pair in the other's place, behind what matches ``before``."""
    found = [
        (pattern, other)
        for one, other in pairs
        if (pattern := re.compile(rf"({before}){_whole(one)}")).search(quote)
    ]
    if not found:
        return quote
    pattern, other = rng.choice(found)
    return pattern.sub(lambda match: match[1] + other, quote, count=1)


def _whole(word: str) -> str:
    return rf"\b{re.escape(word)}\b" if word.isascii() and word.isalpha() else re.escape(word)


def _other_number(quote: str, language: str, rng: random.Random) -> str:
    found = list(re.finditer(r"\d+", quote))
    if not found:
        return quote
    match = rng.choice(found)
    return quote[: match.start()] + str(int(match[0]) + rng.randint(1, 9)) + quote[match.end() :]


def _other_unit(quote: str, language: str, rng: random.Random) -> str:
    return _swap(_pairs(_UNITS[language]), r"\d[\d,.]*\s?-?", quote, rng)


def _denied(quote: str, language: str, rng: random.Random) -> str:
    return _swap(_pairs(_DENIALS[language], both_ways=False), "", quote, rng)


def _opposite(quote: str, language: str, rng: random.Random) -> str:
    return _swap(_pairs(_OPPOSITES[language]), "", quote, rng)


CONTRADICTING: Mapping[str, Change] = {
    "other number": _other_number,
    "other unit": _other_unit,
    "denied": _denied,
    "opposite": _opposite,
}


def contradicting_claims(
    half: Half, change: Change, rng: random.Random
) -> Iterator[tuple[int, str, str]]:
    """Yield the passage's number, a claim that contradicts a sentence of it, and that sentence."""
    for number, sentence in half.sentences:
        claim = change(sentence, half.language, rng)
        if claim != sentence and not says_the_same(claim, sentence):
            yield number, claim, sentence


def translated_claims(one: Half, other: Half) -> Iterator[tuple[int, str, str]]:
    """Yield the passage's number of ``other``, a sentence of ``one``, and its translation there.

    XQuAD has the same paragraphs in both languages; those with as many sentences are taken.
    """
    for number, (left, right) in enumerate(zip(one.passages, other.passages, strict=True)):
        spans, others = sentence_spans(left.text), sentence_spans(right.text)
        if len(spans) == len(others):
            for (a, b), (c, d) in zip(spans, others, strict=True):
                yield number, left.text[a:b], right.text[c:d]
