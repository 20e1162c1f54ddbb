"""BM25 tokenizer: search terms of a text with counts, of a query with weights.

Terms are words (rjieba's search mode for Han, stems for Latin, whole and in parts where a code is
joined by hyphens). Where the segmentation of Han is unsure, at neighbouring single characters and
inside words that the dictionary does not explain, bigrams stand beside the words: they find names
and new words that text and query are cut into differently. Traditional characters are simplified
first.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import chain
from types import ModuleType

from Stemmer import Stemmer

from rag.stages.text.simplified import simplify_chinese

# Stop words of both languages: they ask, join and point, and say nothing of a subject. They bring
# no hit, count neither in its confidence nor among a query's keywords, and are not highlighted.
# Polite openings are POLITE of ``rag.stages.query.cues``; what else is no subject of a follow-up
# is in ``rag.stages.query.subject_words``.
_WORDS = (
    "的 了 是 在 和 与 及 或 之 也 于 以 而 被 把 将 对 从 到 由 就 都 又 还 并 很 更 最 不 有 这"
    " 那 一 个 中 上 下 等 所 吗 呢"
    " 吧 啊 呀 嘛 么 着 过 得 地 给 让 向 往 请 我 你 您 他 她 它 们 该 各 每 某 其 此 能 会 要 想"
    " 可 应 须 用 为 因 但 若 如 则"
    " 什么 怎么 怎样 如何 为什么 为何 多少 多大 多长 多久 多高 哪 哪个 哪些 哪里 哪儿 哪年 几 谁"
    " 何时 是否 能否 可以 可否 能够"
    " 应该 需要 我们 你们 他们 它们 自己 这个 那个 这些 那些 这样 那样 一下 一个 一些 一种 有些"
    " 有的 没有 有没有 是不是 能不能"
    " 请问 麻烦 帮我 帮忙 告诉 知道 想要 关于 对于 以及 并且 而且 或者 还是 但是 因为 所以 如果"
    " 的话 时候 之后 以后 之前 以前"
    " 其中 进行 通过 根据 按照 介绍 列出 总结 解释 说明 比较 对比 区别 有关 相关 主要 哪种 哪位"
    " 什么样 是什么 有什么 怎么办 怎么样 多长时间 才 才能 再 只 却 便 且 时 后 前 里 以内"
    " 以上 以下 之内 必须 还要 就是 不是"
    " a an the this that these those and or but nor of in on at to for from by with about into"
    " over under between"
    " as is are was were be been being am do does did done can could will would shall should may"
    " might must has"
    " have had having i me my we us our you your he him his she her it its they them their who"
    " whom whose which"
    " what when where why how if than then so such not no yes any some all each every please there"
    " here also just"
    " only very too more most much many what's it's i'm i'd who's let's don't doesn't didn't won't"
    " can't tell show"
    " give find list explain describe compare summarize get got want need know like look looking"
    " up out s t after before during until till while because since although though again within"
    " without through both same own once ever per via upon off onto along across among how's"
)
STOP_WORDS = frozenset(_WORDS.split())
# "How long" asks; it says nothing of something long.
ASKING_HOW = re.compile(
    r"\bhow (?:long|old|far|often|big|tall|high|deep|wide|heavy|fast|large|soon|late|early)\b", re.I
)
# An article at the end names something: hepatitis A, appendix A.
_NAMED_A = re.compile(r"(?<=\w )A\s*(?:[?？.!。,，]|$)")


def is_stop_word(text: str, start: int, end: int) -> bool:
    """Return whether ``text[start:end]`` is a stop word; names in capitals (IT, WHO) are none."""
    word = text[start:end]
    is_name = len(word) > 1 and word.isupper() and not text.isupper()
    if is_name or (word == "A" and _NAMED_A.match(text, start)):
        return False
    return word.casefold().replace("’", "'") in STOP_WORDS


VERSION = "words+unsure-bigrams/3"
BIGRAM_WEIGHT = 0.3

# Kana and Hangul are written without reliable spaces too, so they share the treatment of Han.
_RUN = re.compile(
    r"[\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W_]+(?:[-_./'’+][^\W_]+)*[+#]*")
_PART = re.compile(r"[^\W_]+")
_ASCII_DIGIT = re.compile(r"[0-9]")
# A bigram across the border of such a one-character word finds nothing that people look for.
_PARTICLES = frozenset(
    "的了是在和与及或之其也于以为而被把将对从到由就都又还并很更最不有这那一个中上下等所"
)


def _fold_text(text: str, is_simplified: bool = True) -> str:
    """Return ``text`` in the form in which terms are compared: NFKC, simplified, lower case."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text)
    return (simplify_chinese(plain) if is_simplified else plain).casefold()


def is_han(text: str) -> bool:
    """Return whether at least 30 % of the letters of ``text`` are Han characters."""
    n_han = 0 if text.isascii() else len(_HAN.findall(text))
    # Letters are counted only where it hangs on them: that takes ten times as long.
    return n_han > 0 and (n_han >= 0.3 * len(text) or n_han >= 0.3 * len(_LETTER.findall(text)))


def segment_han(run: str, *, is_search: bool = False) -> list[str]:
    """Return the words of Chinese text; with ``is_search`` also the words inside longer ones."""
    words: list[str] = _jieba().cut_for_search(run) if is_search else _jieba().cut(run)
    return words


def tag_han(text: str) -> list[tuple[str, str]]:
    """Return the words of a text with the part of speech of each (jieba's tags: nr, ns, v)."""
    tagged: list[tuple[str, str]] = _jieba().tag(text)
    return tagged


@lru_cache(maxsize=1)
def _jieba() -> ModuleType:
    # Reading its dictionary takes a tenth of a second of every command that needs no word.
    import rjieba

    return rjieba


# Indexes that older versions made hold terms as they were written: with ``is_simplified`` False
# the functions below return those.


def index_terms(text: str, *, is_simplified: bool = True) -> Counter[str]:
    """Return each term of a chunk with its count; the sum is the chunk's BM25 length."""
    folded = _fold_text(text, is_simplified)
    terms: list[str] = []
    for run in _RUN.findall(folded):
        words, bigrams = _run_terms(run)
        terms += words
        terms += bigrams
    rest = _RUN.sub(" ", folded) if terms else folded
    return Counter(chain(chain.from_iterable(map(_latin, _WORD.findall(rest))), terms))


def query_terms(text: str, *, is_simplified: bool = True) -> dict[str, float]:
    """Return each term of a query with its weight: 1 for words, 0.3 for mere bigrams."""
    folded = _fold_text(text, is_simplified)
    weights: dict[str, float] = {}
    for match in _RUN.finditer(folded):
        words, bigrams = _run_terms(match.group())
        weights.update(dict.fromkeys(words, 1.0))
        for bigram in bigrams:
            weights.setdefault(bigram, BIGRAM_WEIGHT)
    for match in _WORD.finditer(_RUN.sub(" ", folded)):
        weights.update(dict.fromkeys(_latin(match.group()), 1.0))
    return weights


def content_terms(text: str, *, is_simplified: bool = True) -> dict[str, float]:
    """Return the query terms without stop words; all of them where nothing else is asked."""
    # The iota below is the one mark that folding makes a letter, which then joins two words.
    plain = unicodedata.normalize("NFKC", text).replace("\u0345", "\u03b9")
    plain = ASKING_HOW.sub(" ", plain)
    weights: dict[str, float] = {}
    runs = " ".join(_RUN.findall(plain))
    for term, weight in query_terms(runs, is_simplified=is_simplified).items():
        if term not in STOP_WORDS:
            weights[term] = weight
    rest = _RUN.sub(" ", plain)
    for match in _WORD.finditer(rest):
        if is_stop_word(rest, *match.span()):
            continue
        # Folding parts a letter from its marks, and a word where they stood, as in the index.
        for word in _WORD.findall(match.group().casefold()):
            whole, *parts = _latin(word)
            is_code = bool(_ASCII_DIGIT.search(whole))
            kept = (part for part in parts if is_code or part not in STOP_WORDS)
            weights.update(dict.fromkeys((whole, *kept), 1.0))
    return weights or query_terms(text, is_simplified=is_simplified)


def short_han_phrase(text: str) -> str:
    """Return a query of one to four Han characters and nothing else, else an empty string."""
    bare = text.strip().strip("？?。.！!，,“”\"' ")
    return bare if 1 <= len(bare) <= 4 and len(_HAN.findall(bare)) == len(bare) else ""


def is_identifier(term: str) -> bool:
    """Return whether a term looks like a part number, code or figure rather than a word."""
    return len(term) >= 3 and bool(_ASCII_DIGIT.search(term))


def _run_terms(run: str) -> tuple[list[str], list[str]]:
    """Return search-mode words, and the bigrams of places where the segmentation is unsure."""
    words: list[str] = []
    bigrams: list[str] = []
    last = ""
    for word in segment_han(run):
        if len(word) == 1:
            if last and not (last in _PARTICLES or word in _PARTICLES):
                bigrams.append(last + word)
            words.append(word)
            last = word
            continue
        last = ""
        if len(word) == 2:
            words.append(word)
            continue
        parts, inner = _long_word(word)
        words += parts
        bigrams += inner
    return words, bigrams


@lru_cache(maxsize=65536)
def _long_word(word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a word of three and more with its parts, and bigrams if those do not explain it."""
    parts = tuple(segment_han(word, is_search=True))
    if sum(len(part) == 2 for part in parts) >= len(word) - 2:
        return parts, ()
    pairs = dict.fromkeys(word[at : at + 2] for at in range(len(word) - 1))
    return parts, tuple(pair for pair in pairs if pair not in parts)


@lru_cache(maxsize=65536)
def _latin(word: str) -> tuple[str, ...]:
    """Return the stem of a word, or a joined code as a whole and in parts."""
    parts = _PART.findall(word)
    if len(parts) == 1 and parts[0] == word:
        return (_stem(word),)
    return (word, *(_stem(part) for part in parts))


def _stem(word: str) -> str:
    if _ASCII_DIGIT.search(word):
        return word
    # Stemmer objects keep state between calls and are not safe to share between threads.
    stem: str = Stemmer("english", 0).stemWord(word)
    return stem
