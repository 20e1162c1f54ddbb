"""Question decomposition: the parts of a question that need passages of their own, by rules.

A question of two hops asks something of a thing that it only describes (“where was the author of X
born?”, “X的作者的出生地是哪里”); one of several parts joins questions (“when did A, and who did
B?”). Both languages, without a model; what is not clearly one of them has no parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.stages.query.cues import QUESTION
from rag.stages.text.sentences import sentence_spans
from rag.stages.text.terms import STOP_WORDS, content_terms, index_terms, is_han, tag_han

MAX_CHARACTERS = 300
MAX_PARTS = 3
MAX_BRIDGES = 4
# What somebody or something is to another.
_ROLE = (
    "(?:co-?)?(?:author|writer|novelist|poet|founder|creator|inventor|discoverer|director|composer"
    "|painter|sculptor|architect|designer|maker|manufacturer|producer|publisher|owner|mayor"
    "|president|chairman|chairwoman|ceo|king|queen|emperor|leader|head|governor|minister|captain"
    "|coach|manager|editor|translator|singer|performer|developer|supplier|employer|wife|husband"
    "|spouse|father|mother|son|daughter|brother|sister|successor|predecessor|teacher"
    "|birthplace|home ?town|native (?:town|city|country)|capital|headquarters|seat|parent company"
    "|subsidiary)"
)
_QUOTED = r"“[^“”]{1,100}”|\"[^\"]{1,100}\"|‘[^‘’]{2,100}’|《[^《》]{1,100}》"
_NAME = (
    rf"(?:the |an? )?(?:{_QUOTED}|[A-Z\d][\w.&+-]*(?:[ ](?:of|de|von|van|du|la|and|the)(?=[ ][A-Z])"
    r"|[ ][A-Z\d][\w.&+-]*)*)"
)
_OF = re.compile(rf"\b(?:the |an? )?(?:\w+ ){{0,1}}?{_ROLE}s? (?:of|behind) {_NAME}")
_OWNED = re.compile(rf"{_NAME}['’]s? (?:\w+ )?{_ROLE}\b")
_CLAUSE = re.compile(
    r"\b(?:the|an?|that|those) (?:[\w-]+ ){1,4}?(?:(?:in|at|on|for|of|to|from|by|with|under|after) "
    r"(?:which|whom|whose)|where|who|whose|that|which|whom)\b .+$",
    re.I,
)
_LAST_NAME = re.compile(rf".*(?:{_QUOTED}|(?<![\w“\"‘-])[A-Z\d][\w.&-]*(?![^“]*”))(?:['’]s)?")
_HAN_ROLE = (
    "作者|作家|原作者|创始人|创办人|创办者|创立者|创建者|奠基人|建筑师|设计者|设计师|发明者|发明人|发现者"
    "|建造者|制造商|生产商|厂家|厂商|供应商|开发商|开发者|出版社|导演|编剧|作曲家|作曲者|画家|主演|译者"
    "|编者|主编|编辑|负责人|市长|镇长|县长|省长|州长|总裁|总经理|董事长|首席执行官|校长|总统|总理|首相"
    "|国王|女王|皇帝|领导人|首都|首府|省会|出生地|故乡|家乡|老家|祖国|母校|总部|所在地|产地|籍贯|妻子|丈夫"
    "|配偶|父亲|母亲|儿子|女儿|哥哥|弟弟|姐姐|妹妹|导师|前任|继任者|接班人|母公司|子公司|所有者"
    "|拥有者|老板|队长|教练"
)
_HAN_HEAD = (
    "人|男子|女子|作家|诗人|画家|建筑师|学者|科学家|艺术家|球员|导演|国家|地方|城市|城镇|小镇|镇|县|省|州|地区"
    "|公司|企业|厂家|机构|组织|大学|学校|学院|球队|河流?|书|小说|作品|电影|岛|民族|宗教|王朝"
)
_BY_ROLE = re.compile(
    rf"(?P<first>[^，,。？?]{{2,80}}?(?:{_HAN_ROLE}))(?P<after>(?!们).*)$", re.DOTALL
)
_BY_CLAUSE = re.compile(
    rf"(?P<first>[^，,。？?]{{3,80}}?的(?:那[个位家座所部条本])?(?:{_HAN_HEAD}))(?P<after>.+)$",
    re.DOTALL,
)
# What asks or names nothing in particular is no question of its own beside a description.
_VAGUE = frozenset(
    index_terms(
        "name named names called call term title word kind type sort year date day time person man"
        " woman thing place people lie lies say said first last main many"
        " 名字 名称 叫 称 称为 年 日期 时间 人 一个 种 类型 事 名"
    )
)
_JOINT = re.compile(
    r"[?？;；]\s*(?:and |also |以及|还有|另外|同时)?|,? and (?=(?:in |at |on |for |to |from |by )?"
    r"(?:who|what|when|where|which|why|how)\b)|[，,]\s*(?:以及|并且|而且|还有|另外|同时|而|又|那么?)?"
    r"|(?:以及|并且|还有)",
    re.I,
)
_LEANING = re.compile(
    r"\b(?:it|its|he|his|him|she|her|they|their|them|this|that|these|those)\b|它|他|她|此|该|其(?!他|中)",
    re.I,
)
_ASKS = re.compile(r"\b(?:who|whom|whose|what|when|where|which|why|how)\b", re.I)
_ENDS_ASKING = re.compile(r"\b(?:whom?|what|which \w+|where)$", re.I)
_CAPITAL = re.compile(
    r"(?<![\w'’-])[A-Z\d][\w&-]*(?:\.(?=[A-Z])\w*)*(?:[ ](?:of|de|von|van|du|la|the)(?=[ ][A-Z])"
    r"|[ ][A-Z\d][\w&-]*)*"
)
_MARKED = re.compile(_QUOTED)
_NAME_KINDS = ("nr", "ns", "nt", "nz", "eng", "j")


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Parts of a question: each is searched alone; of two hops ``parts`` is the description.

    ``before`` and ``after`` is what is asked of the described thing, once its name is found.
    """

    parts: tuple[str, ...]
    before: str = ""
    after: str = ""

    @property
    def has_hops(self) -> bool:
        """Return whether a second question is to be made of what the first one finds."""
        return bool(self.before or self.after)

    def second_question(self, name: str) -> str:
        """Return what is asked once the description is replaced by a name."""
        return " ".join(filter(None, (self.before, name, self.after)))


def decompose_question(question: str) -> Decomposition | None:
    """Return the parts of a question, None for one that a single search can answer."""
    text = question.strip()
    if len(text) > MAX_CHARACTERS:
        return None
    if parts := _joined_parts(text):
        if len(parts) == 2 and _LEANING.search(parts[1]) and not _LEANING.search(parts[0]):
            return Decomposition(parts[:1], after=parts[1])
        return Decomposition(parts)
    return _han_hops(text) if is_han(text) else _latin_hops(text)


def _joined_parts(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in _JOINT.split(text) if part and part.strip()]
    if not 2 <= len(parts) <= MAX_PARTS:
        return ()
    asks = QUESTION if is_han(text) else _ASKS
    is_each_asked = all(asks.search(part) and _says(part) for part in parts)
    return tuple(parts) if is_each_asked else ()


def _says(text: str) -> bool:
    """Return whether a text has words that say what is looked for."""
    said = content_terms(text).keys() - _VAGUE - STOP_WORDS
    return any(not term.isdigit() for term in said)


def _latin_hops(text: str) -> Decomposition | None:
    asked = text.rstrip(" ?.!")
    for pattern in (_OF, _OWNED):
        if match := pattern.search(asked):
            before, after = asked[: match.start()].strip(), asked[match.end() :].strip()
            if _says(f"{before} {after}"):
                return Decomposition((match[0],), before, after)
    if match := _CLAUSE.search(asked, 1):
        before, clause = asked[: match.start()].strip(), match[0]
        named = _LAST_NAME.match(clause)
        after = clause[named.end() :].strip(" ,.") if named else ""
        is_asked = _ASKS.search(before) and not _ENDS_ASKING.search(clause)
        if is_asked and (_says(before) or _says(after)):
            return Decomposition((clause,), before, after)
    return None


def _han_hops(text: str) -> Decomposition | None:
    asked = text.rstrip(" ?？。!！")
    if match := _BY_ROLE.match(asked):
        first, after = match["first"], match["after"]
        if not _says(after) and QUESTION.search(first):
            # What is asked stands before whom it is asked of: 哪条河流经……的故乡
            return Decomposition((first,), before=first) if _says_more(first) else None
        if _says(after) and not QUESTION.search(first):
            return Decomposition((first,), after=after.lstrip("的，, "))
    if match := _BY_CLAUSE.match(asked):
        first, after = match["first"], match["after"].lstrip("的，, ")
        kinds = {kind for _, kind in tag_han(first)}
        has_verb = any(kind.startswith("v") for kind in kinds)
        if has_verb and _says(after) and not QUESTION.search(first):
            return Decomposition((first,), after=after)
    return None


def _says_more(first: str) -> bool:
    return len(content_terms(first)) > 2


def bridge_names(description: str, passage: str) -> tuple[str, ...]:
    """Return the names of a passage that the description has not, those nearest to it first.

    They stand in the sentence that shares most words with the description or beside it.
    """
    asked = content_terms(description)
    spans = sentence_spans(passage)
    sentences = [passage[start:end] for start, end in spans]
    if not sentences:
        return ()
    shared = [len(asked.keys() & index_terms(one).keys()) for one in sentences]
    best = max(range(len(sentences)), key=lambda n: (shared[n], -n))
    folded = description.casefold()
    found: dict[str, None] = {}
    for n in (best, best + 1, best - 1):
        if 0 <= n < len(sentences):
            for name in _names(sentences[n].strip()):
                if name.casefold() not in folded and folded not in name.casefold():
                    found.setdefault(name)
    return tuple(found)[:MAX_BRIDGES]


def best_described(description: str, passages: Sequence[str]) -> list[int]:
    """Return which passages hold most of a description, rare words above all."""
    asked = content_terms(description)
    held = [asked.keys() & index_terms(passage).keys() for passage in passages]
    n = len(passages)
    rarity = {
        term: weight * math.log(1 + n / max(1, sum(term in one for one in held)))
        for term, weight in asked.items()
    }
    shares = [round(sum(rarity[term] for term in one), 6) for one in held]
    most = max(shares, default=0.0)
    return [place for place, share in enumerate(shares) if share >= most > 0]


def _names(sentence: str) -> Iterator[str]:
    yield from (match[0] for match in _MARKED.finditer(sentence))
    if is_han(sentence):
        yield from _han_names(sentence)
        return
    for match in _CAPITAL.finditer(_MARKED.sub(" ", sentence)):
        words = match[0].split()
        if words[0].casefold() in STOP_WORDS:
            words = words[1:]
        if words and not all(word.isdigit() for word in words):
            yield " ".join(words)


def _han_names(sentence: str) -> Iterator[str]:
    held = ""
    for word, kind in (*tag_han(sentence), ("", "x")):
        is_name = kind.startswith(_NAME_KINDS)
        # A rare name is cut: 裴 and 明哲, 澄岭 and 镇.
        if held and (is_name or (kind[:1] in "nag" and len(word) <= 2 and len(held) <= 3)):
            held += word
        else:
            if len(held) > 1:
                yield held
            held = word if is_name else ""
