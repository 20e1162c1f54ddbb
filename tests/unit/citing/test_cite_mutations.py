"""How many altered quotes are caught and how many honest ones are doubted, in both languages."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rag.stages.prompting.context import Passage
from rag.stages.text.sentences import sentence_ends
from rag.stages.text.terms import is_han
from tests.unit.passages import make_passages, verify_citations

FOLDER = Path(__file__).resolve().parents[3] / "rag" / "demo" / "documents"
TEXTS = {
    "zh": ["运营指南.md", "访客须知.txt"],
    "en": ["workshop-guide.md", "seed-library.html"],
}
_NUMBER = re.compile(r"\d+")
_WORDS = {"zh": re.compile(r"[\u4e00-\u9fff]{2}"), "en": re.compile(r"[A-Za-z]{3,}")}
# One of a pair stands for the other: each is a change of meaning without a change of length.
PAIRS = {
    "zh": [
        ("不得", "应当"),
        ("必须", "不必"),
        ("以上", "以下"),
        ("不", "可"),
        ("可以", "不可"),
        ("前", "后"),
    ],
    "en": [
        (" must ", " may "),
        (" not ", " now "),
        (" is ", " is not "),
        (" are ", " are not "),
        (" before ", " after "),
        (" can ", " cannot "),
        (" the ", " no "),
    ],
}

TURNS = re.compile(
    r"但|除|如|只|仅|不|没|未|无|否|虽|直到|勿|若|却"
    r"|\b(?:no|not|never|unless|except|if|only|but|although|until|without|neither|nor)\b",
    re.I,
)

Change = Callable[[str, str, random.Random], str]


def other_number(quote: str, language: str, rng: random.Random) -> str:
    return _NUMBER.sub(lambda match: str(int(match.group()) + rng.randint(1, 9)), quote, count=1)


def other_digit_order(quote: str, language: str, rng: random.Random) -> str:
    return _NUMBER.sub(lambda match: match.group()[::-1], quote, count=1)


def negation(quote: str, language: str, rng: random.Random) -> str:
    for left, right in PAIRS[language]:
        if left in quote:
            return quote.replace(left, right, 1)
    return quote


def swapped_words(quote: str, language: str, rng: random.Random) -> str:
    words = list(_WORDS[language].finditer(quote))
    if len(words) < 2:
        return quote
    first, second = sorted(rng.sample(words, 2), key=lambda match: match.start())
    between = quote[first.end() : second.start()]
    return quote[: first.start()] + second.group() + between + first.group() + quote[second.end() :]


def dropped_word(quote: str, language: str, rng: random.Random) -> str:
    words = list(_WORDS[language].finditer(quote))[1:-1]
    if not words:
        return quote
    word = rng.choice(words)
    return quote[: word.start()] + quote[word.end() :]


def cut_end(quote: str, language: str, rng: random.Random) -> str:
    """Cut the last word in two (English), or put another in its place (Chinese)."""
    body = re.sub(r"\W+\Z", "", quote)
    return body[:-1] if language == "en" else body[:-1] + ("乙" if body[-1] != "乙" else "丙")


def cut_number(quote: str, language: str, rng: random.Random) -> str:
    """Begin inside the first number of two digits and more."""
    match = re.search(r"\d{2,}", quote)
    return quote[match.start() + 1 :] if match else quote


def broken_off(quote: str, language: str, rng: random.Random) -> str:
    """Leave off the sentence's last words within a clause."""
    marks = "，、；：,;:。.（）()“”|—–-"
    ends = [match.end() for match in _WORDS[language].finditer(quote)]
    open_ends = [
        end
        for end in ends
        if end >= 0.8 * len(quote) and re.match(rf"\s*[^\W_][^{marks}]", quote[end:])
    ]
    return quote[: rng.choice(open_ends)] if open_ends else quote


ALTERATIONS: list[Change] = [
    broken_off,
    other_number,
    other_digit_order,
    negation,
    swapped_words,
    dropped_word,
    cut_end,
    cut_number,
]


def wide(quote: str, language: str, rng: random.Random) -> str:
    return quote.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F) if chr(code) != "*"})


def other_marks(quote: str, language: str, rng: random.Random) -> str:
    return quote.translate(str.maketrans("，。；：“”’–—（）", ',.;:""\'--()'))


def broken_lines(quote: str, language: str, rng: random.Random) -> str:
    if language == "zh":
        spots = [m.start() for m in re.finditer(r"(?<=[\u4e00-\u9fff])(?=[\u4e00-\u9fff])", quote)]
        at = rng.choice(spots) if spots else len(quote)
        return f"{quote[:at]}\n{quote[at:]}"
    hyphenated = re.sub(r"([a-z]{3})([a-z]{3})", "\\1-\n\\2", quote, count=1)
    return hyphenated.replace(" ", "\n", 1)


def capitals(quote: str, language: str, rng: random.Random) -> str:
    return quote.upper()


def more_space(quote: str, language: str, rng: random.Random) -> str:
    return f"  {quote} ".replace(" ", "\u00a0 ").replace("，", "， ")


def ligatures(quote: str, language: str, rng: random.Random) -> str:
    return quote.replace("fi", "ﬁ").replace("ff", "ﬀ").replace("用", "⽤").replace("水", "⽔")


def in_marks(quote: str, language: str, rng: random.Random) -> str:
    return f"“{quote}”"


def part(quote: str, language: str, rng: random.Random) -> str:
    """The longest clause, where nothing else in the sentence turns what it says."""
    clauses = re.split(r"(?<=[，,;；:：])(?!\d)", quote)
    longest = max(clauses, key=len)
    return quote if TURNS.search(quote.replace(longest, "")) else longest


TYPOGRAPHY: list[Change] = [
    wide,
    other_marks,
    broken_lines,
    capitals,
    more_space,
    ligatures,
    in_marks,
    part,
]


def passages_of(language: str) -> list[Passage]:
    texts = []
    for name in TEXTS[language]:
        encoding = "gb18030" if name.endswith(".txt") else "utf-8"
        text = (FOLDER / name).read_text(encoding=encoding)
        text = html.unescape(re.sub(r"(?s)<(script|style).*?</\1>|<[^>]+>", "", text))
        texts += [text[start : start + 2000] for start in range(0, len(text), 1800)]
    return make_passages(*texts)


def quotes(language: str) -> list[tuple[str, str]]:
    found = []
    for passage in passages_of(language):
        start = 0
        for end in sentence_ends(passage.text):
            sentence, start = passage.text[start:end].strip(), end
            is_prose = not sentence.startswith(("|", "#")) and "|" not in sentence
            if 12 <= len(sentence) <= 300 and is_prose and is_han(sentence) == (language == "zh"):
                found.append((passage.doc_id, sentence))
    # The borders of these passages cut words; only whole sentences are honest quotes.
    return [q for q in found if q[1][-1] in "。！？.!?；"]


def share(language: str, changes: list[Change], verdict: str) -> tuple[int, list[str]]:
    rng = random.Random(7)
    passages = passages_of(language)
    n, wrong = 0, []
    for doc_id, quote in quotes(language):
        for change in changes:
            changed = change(quote, language, rng)
            if changed == quote:
                continue
            tag = f'<cite doc_id="{doc_id}" quote="{html.escape(changed)}">x</cite>'
            _, (citation,) = verify_citations(tag, passages)
            n += 1
            if (citation.verdict == "verified") != (verdict == "verified"):
                wrong.append(f"{change.__name__}: {changed!r} of {quote!r}")
    return n, wrong


@pytest.mark.parametrize("language", ["zh", "en"])
def test_99_of_100_altered_quotes_are_caught(language: str) -> None:
    n, missed = share(language, ALTERATIONS, "altered")
    assert n >= 150
    assert len(missed) <= 0.01 * n, missed


@pytest.mark.parametrize("language", ["zh", "en"])
def test_1_of_100_honest_quotes_is_doubted_at_most(language: str) -> None:
    n, doubted = share(language, TYPOGRAPHY, "verified")
    assert n >= 150
    assert len(doubted) <= 0.01 * n, doubted
