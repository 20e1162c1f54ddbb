"""Contradiction: what parts a claim from the source it rests on.

Numbers with units and dates, denials, opposites and names are compared, within one language; what
survives translation (numbers, dates, codes) also across languages. Rules, no model: a source is
trusted for nothing but its words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Literal

from rapidfuzz import fuzz
from Stemmer import Stemmer

from rag.stages.citing.quantities import codes_differ, is_rounded, numbers_differ
from rag.stages.text.normalize import to_simplified
from rag.stages.text.terms import STOP_WORDS, is_han, segment_han
from rag.stages.text.units import UNITS

# Why a claim is not what its source says; empty where nothing speaks against it.
Contradiction = Literal["", "number", "denial", "opposite", "name"]

_HAN = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<word>(?:(?![{_HAN}])[^\W_])+(?:['’.,](?:(?![{_HAN}])[^\W_])+)*)"
    r"|(?P<stop>[，；：。！？,;:!?]|\.(?!\d)|—|\||\n)"
)
# A line is a pair of opposites; words of one meaning stand on the same side of the bar.
_OPPOSITES = Path(__file__).with_name("opposites.txt")
# Denials that bound a number, and doubled ones that deny nothing, in words that deny nothing.
_PLAIN_WORDS = (
    (r"不得不|不能不|不可不|非.{1,6}不可", "必须"),
    (r"(?:不得|不应|不能|不可|不会|不)(?:超过|多于|高于|大于|长于|迟于|晚于)|不超|以内", "至多"),
    (r"(?:不得|不应|不能|不可|不会|不)(?:少于|低于|小于|短于|早于)|不下于|不足(?=\d)", "至少"),
    (
        r"\b(?:no|not) (?:more|greater|longer|later|higher) than"
        r"|\b(?:must |shall |should |may |can )?(?:not|never) exceed(?:ing)?\b"
        r"|\bnot over\b|\bup to\b",
        "at_most",
    ),
    (r"\b(?:no|not) (?:less|fewer|lower|shorter|earlier) than|\bat least\b", "at_least"),
    (r"\bat most\b|\bmaximum of\b", "at_most"),
    (r"\bminimum of\b", "at_least"),
    (r"\bnot only\b|\bno doubt\b|\bno\. ?(?=\d)|\bnot just\b|\bnot merely\b|\bno matter\b", " "),
    (
        r"\b(can|could|would|should|is|are|was|were|do|does|did|has|have|had|must|need|wo|ca|might)"
        r"(?:n['’]t)\b",
        r"\1 not",
    ),
    (r"\bcannot\b", "can not"),
    (
        r"不仅|不但|不断|不同|不久|不过|不少|不禁|不论|不管|不止|不只|无论|无数|无疑|无非|是否|能否"
        r"|可否|有没有|是不是|能不能|要不要|会不会",
        " ",
    ),
)
_PLAIN = tuple((re.compile(pattern), word) for pattern, word in _PLAIN_WORDS)
_DENIAL_WORDS = (
    "not never no without neither nor none nobody nothing nowhere hardly unable fail fails failed"
    " lack lacks lacking lacked avoid forbidden forbid forbids prohibited prohibit prohibits banned"
    " refuse refuses refused"
)
_DENIAL_HAN = (
    "不 没 没有 未 无 非 勿 莫 别 不得 不能 不可 不可以 不要 不必 不用 不会 不许 不准 不应 不应该"
    " 不该 不宜 不需 不需要 不须 无需 无须 毋需 毋须 切勿 请勿 尚未 从未 并未 并非 并不 绝不 从不"
    " 决不 不是"
    " 无法 未能 未曾 禁止 严禁 拒绝 缺乏 避免 不再 不予 不曾 没法 不容 不让 否 非是 杜绝"
)
_DENIALS = frozenset(_DENIAL_WORDS.split()) | frozenset(_DENIAL_HAN.split())
# What these deny stands before them as well: smoking is forbidden.
_BACKWARD = frozenset({"forbidden", "prohibited", "banned", "none"})
# Words that end what a denial denies; beside them a denial may say the same as its opposite does.
_ENDING = (
    "and or but that which because so while whereas however than"
    " 但 但是 而 而是 并 并且 和 或 因为 所以"
)
_ENDS = frozenset(_ENDING.split())
# Up to when, or but for what, a denial counts.
_LIMITING = "until before unless except till 除非 除 除了 之前 以前 前 直到"
_LIMITS = frozenset(_LIMITING.split())
_HAN_PREFIX = "不没未无非"
_PREFIXES = ("un", "in", "im", "ir", "il", "non", "dis")
# Light verbs and the like, whose polarity alone says nothing of the claim.
_LIGHT_WORDS = (
    "need requir have be do can may must should will shall would could use get make"
    " go goe come take put keep let become seem say"
    " 来 去 做 让 使 成为 说"
    " 需要 需 要 可以 可 能 能够 会 应 应该 必须 须 得 进行 使用 有 是 被"
)
_LIGHT = frozenset(_LIGHT_WORDS.split())
_N_SCOPE = 4
# Before one thing and after another do not contradict: these are opposites of the same thing only.
_RELATIONS = frozenset(["befor", "after", "之前", "之后", "以前", "以后"])
_N_ARGUMENT = 2
_VERBATIM = 0.6
_MAX_REPLACED = 3
_CALENDAR = frozenset({"年", "月", "日", "号", "世纪", "年代"})
_STOPS = "。.！!？?；;\n"
_EDGES = " \n\t。.！!？?；;，,"
_LETTER_FOR_LETTER = 80.0
# What comes and goes with a denial.
_PARTICLE = re.compile(
    "|".join(sorted((*_DENIAL_HAN.split(), "了", "着", "过"), key=len, reverse=True))
    + r"|\b(?:not|never|no|do|does|did)\b"
)


@dataclass(frozen=True, slots=True)
class _Token:
    """A word: as compared, as written, and whether it is denied."""

    stem: str
    written: str
    is_denied: bool
    is_limited: bool


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a denial denies; ``is_limited``: up to a time or but for a case."""

    stems: tuple[str, ...]
    is_limited: bool


@dataclass(frozen=True, slots=True)
class _Reading:
    """The words of a text, and of each denial the words that it denies."""

    tokens: tuple[_Token, ...]
    scopes: tuple[_Scope, ...]
    polarity: dict[str, frozenset[bool]]
    content: frozenset[str]
    plain: str
    n_denials: int
    n_limits: int
    is_flipped: bool


def contradiction(claim: str, source: str, around: str = "") -> Contradiction:
    """Return what in ``claim`` speaks against ``source``, the sentences that it rests on.

    ``around`` is the rest of what it may rest on: a number or a word of it counts for the claim.
    """
    claim, source, around = map(to_simplified, (claim, source, around))
    if _is_whole_sentence(claim.strip(_EDGES), source):
        return ""
    is_translated = is_han(claim) != is_han(source)
    if numbers_differ(claim, source, around, is_translated=is_translated):
        return "number"
    if codes_differ(claim, source):
        return "name"
    if is_translated:
        return ""
    said, told = _read(claim), _read(source)
    if changed := _replaced(said, told):
        return changed
    if _is_denied(said, told):
        return "denial"
    return "opposite" if _is_opposite(said, told, _read(around) if around else told) else ""


def has_other_polarity(claim: str, source: str) -> bool:
    """Return whether a claim turns on a word with an opposite that its source does not have."""
    told = _read(source).polarity
    said = _read(claim).polarity.keys() - _LIGHT
    return any(stem in _opposites() and stem not in told for stem in said)


def _is_whole_sentence(words: str, source: str) -> bool:
    """Return whether the source says the words from where a sentence begins.

    What stands within one may be denied there: 不需要校准 holds 需要校准.
    """
    at = source.find(words)
    while at >= 0:
        before, after = at - 1, at + len(words)
        while before >= 0 and source[before] in " \t，,":
            before -= 1
        while after < len(source) and source[after] in " \t":
            after += 1
        is_begun = before < 0 or source[before] in _STOPS
        if is_begun and (after >= len(source) or source[after] in f"{_STOPS}，,"):
            return True
        at = source.find(words, at + 1)
    return False


@lru_cache(maxsize=1024)
def _read(text: str) -> _Reading:
    plain = to_simplified(unicodedata.normalize("NFKC", text))
    lowered = plain.lower() if len(plain.lower()) == len(plain) else plain
    for pattern, word in _PLAIN:
        if pattern.search(lowered):
            # Case tells names apart, and no longer matters where a word was put in its place.
            plain = lowered = pattern.sub(word, lowered)
    tokens, scopes = list[_Token](), list[_Scope]()
    n_denials = n_limits = 0
    is_flipped = False
    for clause in _clauses(plain):
        limits = sum(word in _LIMITS for word, _ in clause)
        denials = sum(word in _DENIALS for word, _ in clause)
        n_limits, n_denials = n_limits + limits, n_denials + denials
        is_flipped |= bool(limits and denials)
        read, denied = _clause(clause)
        tokens += read
        scopes += denied
    polarity: dict[str, set[bool]] = {}
    for token in tokens:
        polarity.setdefault(token.stem, set()).add(token.is_denied)
    frozen = {stem: frozenset(values) for stem, values in polarity.items()}
    content = frozenset(frozen.keys() - STOP_WORDS)
    return _Reading(
        tuple(tokens), tuple(scopes), frozen, content, lowered, n_denials, n_limits, is_flipped
    )


def _clauses(plain: str) -> Iterator[list[tuple[str, str]]]:
    """Yield the words of each clause, folded and as written."""
    clause: list[tuple[str, str]] = []
    for match in _TOKEN.finditer(plain):
        if match["stop"]:
            yield clause
            clause = []
        elif match["han"]:
            clause += [(word, word) for word in _han_words(match["han"])]
        else:
            clause.append((match["word"].lower().replace("’", "'"), match["word"]))
    yield clause


def _han_words(run: str) -> Iterator[str]:
    for word in segment_han(run):
        if len(word) > 1 and word not in _DENIALS:
            # 不需要, 没洗: the sign is one word and what it denies another.
            denial = next((one for one in (word[:3], word[:2]) if one in _DENIALS), "")
            if denial and len(word) > len(denial):
                yield denial
                yield word[len(denial) :]
                continue
        yield word


def _clause(words: Sequence[tuple[str, str]]) -> tuple[list[_Token], list[_Scope]]:
    denied = [False] * len(words)
    scopes: list[_Scope] = []
    is_limited = any(word in _LIMITS for word, _ in words)
    for at, (word, _) in enumerate(words):
        if word not in _DENIALS:
            continue
        scope, ahead = list[str](), range(at + 1, len(words))
        for place in (*ahead, *(range(at - 1, -1, -1) if word in _BACKWARD else ())):
            near = words[place][0]
            if near in _ENDS or len(scope) >= _N_SCOPE:
                break
            if near in _DENIALS or near in STOP_WORDS:
                continue
            denied[place] = not denied[place]
            scope.append(_stem(near))
        if scope:
            scopes.append(_Scope(tuple(scope), is_limited))
    tokens = [
        _Token(_stem(word), written, denied[at], is_limited)
        for at, (word, written) in enumerate(words)
        if word not in _DENIALS
    ]
    return tokens, scopes


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    if not word.isascii() or not word.isalpha():
        return word
    # Stemmer objects keep state between calls and are not safe to share between threads.
    stem: str = Stemmer("english", 0).stemWord(word)
    return stem


def _is_denied(said: _Reading, told: _Reading) -> bool:
    """Return whether one denies what the other says: every word that both have is denied once."""
    if _denies(said, told) or _denies(told, said) or _has_prefix(said, told):
        return True
    # Word by word the same but for a sign of denial.
    bare = (_PARTICLE.sub("", one.plain) for one in (said, told))
    is_verbatim = fuzz.ratio(*bare) >= _LETTER_FOR_LETTER
    return is_verbatim and said.n_denials != told.n_denials


def _denies(one: _Reading, other: _Reading) -> bool:
    for scope in one.scopes:
        if scope.is_limited and not other.n_limits:
            # Not before it cooled, and after it cooled, say the same.
            continue
        shared = [stem for stem in scope.stems if stem in other.polarity]
        weighty = [stem for stem in shared if stem not in _LIGHT]
        if any(True in other.polarity[stem] or False in one.polarity[stem] for stem in shared):
            continue
        is_most = 2 * len(shared) > len(scope.stems)
        if weighty or (is_most and _overlap(one, other) >= _VERBATIM):
            return True
    return False


def _overlap(one: _Reading, other: _Reading) -> float:
    least = min(len(one.content), len(other.content))
    return len(one.content & other.content) / least if least else 0.0


def _has_prefix(said: _Reading, told: _Reading) -> bool:
    """Return whether a word stands beside its own denial: safe and unsafe, 合格 and 不合格."""
    return any(
        root in other.polarity
        and token.stem not in other.polarity
        and root not in one.polarity
        # A denied denial is what it denies.
        and token.is_denied == (True in other.polarity[root])
        for one, other in ((said, told), (told, said))
        for token in one.tokens
        for root in _roots(token.written.lower())
    )


def _roots(word: str) -> Iterator[str]:
    if word.isascii():
        for prefix in _PREFIXES:
            if word.startswith(prefix) and len(word) - len(prefix) >= 4:
                yield _stem(word[len(prefix) :])
    elif len(word) > 2 and word[0] in _HAN_PREFIX:
        yield word[1:]


def _is_opposite(said: _Reading, told: _Reading, around: _Reading) -> bool:
    if said.is_flipped != told.is_flipped:
        return False
    for stem, (is_denied, *_) in ((stem, sorted(one)) for stem, one in said.polarity.items()):
        if stem in told.polarity:
            continue
        for other in _opposites().get(stem, ()):
            if other not in told.polarity or other in said.polarity:
                continue
            if stem in around.polarity and around is not told:
                continue
            if stem in _RELATIONS and not _argument(said, stem) & _argument(told, other):
                continue
            if is_denied in told.polarity[other]:
                return True
    return False


def _argument(text: _Reading, stem: str) -> set[str]:
    """Return the words beside a relation, on the side where what it is related to stands."""
    ahead = range(1, _N_ARGUMENT + 1) if stem.isascii() else range(-_N_ARGUMENT, 0)
    stems = [one.stem for one in text.tokens if one.stem == stem or one.stem not in STOP_WORDS]
    places = [at for at, one in enumerate(stems) if one == stem]
    near = (at + step for at in places for step in ahead)
    return {stems[at] for at in near if 0 <= at < len(stems)}


@lru_cache(maxsize=1)
def _opposites() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in _OPPOSITES.read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition("|")
        for one in map(_stem, left.split()):
            for other in map(_stem, right.split()):
                found.setdefault(one, []).append(other)
                found.setdefault(other, []).append(one)
    return {stem: tuple(dict.fromkeys(others)) for stem, others in found.items()}


def _replaced(said: _Reading, told: _Reading) -> Contradiction:
    """Return what a near verbatim claim has in the place of other words of its source."""
    if _overlap(said, told) < _VERBATIM:
        return ""
    left, right = [one.stem for one in said.tokens], [one.stem for one in told.tokens]
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind != "replace" or max(i2 - i1, j2 - j1) > _MAX_REPLACED:
            continue
        mine, theirs = said.tokens[i1:i2], told.tokens[j1:j2]
        if any(map(_has_digit, mine)) and any(map(_has_digit, theirs)):
            if not is_rounded(said.plain, told.plain) and (
                _written_digits(mine) != _written_digits(theirs)
            ):
                return "number"
            continue
        for one, other in zip(mine, theirs, strict=False):
            if _is_other_unit(one.stem, other.stem):
                return "number"
            if turned := _is_turned(one.stem, other.stem):
                return turned
        mine_named = [one for one in mine if _is_name(one.written)]
        if (
            any(_is_name(one.written) for one in theirs)
            and mine_named
            and not any(one.stem in told.polarity for one in mine_named)
        ):
            return "name"
    return ""


def _has_digit(token: _Token) -> bool:
    return any(map(str.isdigit, token.written))


def _written_digits(tokens: Sequence[_Token]) -> list[str]:
    # 1,000 and 1000 are the same, 1.5 and 15 are not.
    return [one.written.replace(",", "") for one in tokens if _has_digit(one)]


def _is_other_unit(one: str, other: str) -> bool:
    return (
        one != other
        and all(word in UNITS or word in _CALENDAR for word in (one, other))
        and (UNITS.get(one) != UNITS.get(other))
    )


def _is_turned(one: str, other: str) -> Contradiction:
    """Return whether two words are opposites, or differ in parts that are: 女神, 男神; 不变, 变."""
    if other in _opposites().get(one, ()):
        return "opposite"
    if one.isascii() or other.isascii():
        return ""
    head = _n_common(one, other)
    tail = _n_common(one[head:][::-1], other[head:][::-1])
    mine, theirs = one[head : len(one) - tail], other[head : len(other) - tail]
    if theirs in _opposites().get(mine, ()):
        return "opposite"
    is_denial = not (mine and theirs) and (mine or theirs) in _HAN_PREFIX
    return "denial" if is_denial and mine != theirs else ""


def _n_common(one: str, other: str) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _is_name(written: str) -> bool:
    is_capital = written[:1].isupper() and not written.isupper()
    return is_capital and written.lower() not in STOP_WORDS
