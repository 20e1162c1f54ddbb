"""Citations benchmark, its altered quotes: one change of a sentence each.

``ALTERED`` says something else than the source, ``HONEST`` differs in typography alone,
``ABRIDGED`` leaves words out at an ellipsis and ``HIDING`` such that turn what is said. Each takes
(quote, language, rng) and returns the quote itself where it finds nothing to change.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Mapping

from rag.stages.text.normalize import normalize_quote

Change = Callable[[str, str, random.Random], str]

_NUMBER = re.compile(r"\d+")
_WORD = {"zh": re.compile(r"[\u4e00-\u9fff]{2}"), "en": re.compile(r"[^\W\d_]{3,}")}
_UNIT = {"zh": re.compile(r"[\u4e00-\u9fff]"), "en": re.compile(r"\w+(?:['’-]\w+)*")}
# One of a pair stands for the other: a change of meaning, mostly without a change of length.
_PAIRS = {
    "zh": [
        ("没有", "有"),
        ("不是", "是"),
        ("不能", "能"),
        ("不得", "应当"),
        ("必须", "不必"),
        ("未", "已"),
        ("以上", "以下"),
        ("之前", "之后"),
        ("增加", "减少"),
        ("最大", "最小"),
        ("可以", "不可"),
        ("不", "可"),
        ("能够", "不能"),
        ("是", "不是"),
        ("在", "不在"),
        ("有", "没有"),
    ],
    "en": [
        (" not ", " now "),
        (" never ", " ever "),
        (" cannot ", " can "),
        (" no ", " the "),
        (" without ", " with "),
        (" must ", " may "),
        (" before ", " after "),
        (" more ", " less "),
        (" is ", " is not "),
        (" are ", " are not "),
        (" was ", " was not "),
        (" can ", " cannot "),
        (" were ", " were not "),
        (" has ", " has no "),
        (" had ", " had not "),
        (" the ", " no "),
    ],
}
# What turns a sentence when it is left off; the engine keeps a list of its own.
_TURNS = {
    "zh": re.compile(r"但|除非|除了|之外|如果|只有|仅|不|没|未|无|否则|然而|虽然|直到"),
    "en": re.compile(
        r"\b(?:not?|never|unless|except|if|only|but|although|though|until|without|however|provided|"
        r"cannot|neither|nor)\b|n['’]t\b",
        re.I,
    ),
}
_CUTS_NOTHING = re.compile(
    r"(?:^|[，、；：,;:—–“（(《\"|-]\s*)(?:the |an? |and |but |that |在|但|而|并|且|即|则)?\Z", re.I
)
_CLAUSE_END = {"zh": re.compile(r"[，；：,;:]"), "en": re.compile(r"[,;:](?=\s)")}


def _other_number(quote: str, language: str, rng: random.Random) -> str:
    found = list(_NUMBER.finditer(quote))
    if not found:
        return quote
    match = rng.choice(found)
    number = str(int(match.group()) + rng.randint(1, 9))
    return quote[: match.start()] + number + quote[match.end() :]


def _other_digits(quote: str, language: str, rng: random.Random) -> str:
    return _NUMBER.sub(lambda match: match.group()[::-1], quote, count=1)


def _negation(quote: str, language: str, rng: random.Random) -> str:
    pairs = [pair for pair in _PAIRS[language] if pair[0] in quote]
    return quote.replace(*rng.choice(pairs), 1) if pairs else quote


def _swapped(quote: str, language: str, rng: random.Random) -> str:
    words = list(_WORD[language].finditer(quote))
    if len(words) < 2:
        return quote
    first, second = sorted(rng.sample(words, 2), key=lambda match: match.start())
    between = quote[first.end() : second.start()]
    return quote[: first.start()] + second.group() + between + first.group() + quote[second.end() :]


def _dropped(quote: str, language: str, rng: random.Random) -> str:
    words = list(_WORD[language].finditer(quote))[1:-1]
    if not words:
        return quote
    word = rng.choice(words)
    return quote[: word.start()] + quote[word.end() :]


def _added(quote: str, language: str, rng: random.Random) -> str:
    words = list(_WORD[language].finditer(quote))[1:-1]
    if not words:
        return quote
    at = rng.choice(words).start()
    return (
        quote[:at]
        + rng.choice(["几乎", "常常"] if language == "zh" else ["nearly ", "often "])
        + quote[at:]
    )


def _cuts(quote: str, language: str) -> list[tuple[int, bool]]:
    """Return where the second half of a quote may end, and whether a clause ends there."""
    units = [match.end() for match in _UNIT[language].finditer(quote)]
    ends = [end for end in units[:-1] if end >= 0.5 * len(quote)]
    return [(end, not re.match(r"\s*[\w“‘(（《]", quote[end:])) for end in ends]


def _cut_within(quote: str, language: str, rng: random.Random) -> str:
    ends = [end for end, is_clause in _cuts(quote, language) if not is_clause]
    return quote[: rng.choice(ends)] if ends else quote


def _cut_turn(quote: str, language: str, rng: random.Random) -> str:
    ends = [match.start() for match in _CLAUSE_END[language].finditer(quote)]
    ends = [end for end in ends if end >= 0.3 * len(quote) and _turns(quote[end:], language)]
    return quote[: rng.choice(ends)] if ends else quote


def _turns(rest: str, language: str) -> bool:
    # What a semicolon parts stands for itself.
    return bool(_TURNS[language].search(re.split("[；;]", rest[1:])[0])) and rest[0] not in "；;"


# What an ellipsis may not hide: more than a cut may not.
_HIDDEN = {
    "zh": re.compile(
        r"但|除|如果|若(?!干)|只|仅|不|没|未|无|勿|非|否|然而|虽|直到|却|尽管|即使|反而|相反|可是|错|禁|拒|避免|停止|缺"
        r"|当|时[，,]|[之以][前后]|例外|前提"
    ),
    "en": re.compile(
        r"\b(?:not?|never|unless|except|excluding|if|only|but|although|though|until|without|however|"
        r"provided|cannot|neither|nor|none|whereas|despite|instead|otherwise|rarely|hardly|seldom|few|"
        r"little|when|while|before|after|since|fail\w*|unable|lack\w*|yet|rather|against|den\w+|refus\w+|"
        r"doubt\w*|apart)\b|n['’]t\b",
        re.I,
    ),
}
_ELLIPSES = (" … ", "...", "……", " [...] ")


def _left_out(quote: str, language: str, rng: random.Random, *, is_hiding: bool) -> str:
    units = [match.span() for match in _UNIT[language].finditer(quote)]
    spans = [
        (units[i][1], units[j][0])
        for i in range(1, len(units) - 4)
        for j in range(i + 2, len(units) - 1)
        # Numbers and words with marks inside would be cut, not left out.
        if not re.search(r"\d", quote[units[i][1] - 2 : units[i][1] + 2])
        and not re.search(r"\d", quote[units[j][0] - 2 : units[j][0] + 2])
        and quote[units[i][1]].isspace() == (language == "en")
    ]
    turns = _TURNS if is_hiding else _HIDDEN
    fit = [span for span in spans if bool(turns[language].search(quote[slice(*span)])) == is_hiding]
    if not fit:
        return quote
    start, end = rng.choice(fit)
    return quote[:start].rstrip() + rng.choice(_ELLIPSES) + quote[end:].lstrip()


def _abridged(quote: str, language: str, rng: random.Random) -> str:
    return _left_out(quote, language, rng, is_hiding=False)


def _hiding(quote: str, language: str, rng: random.Random) -> str:
    return _left_out(quote, language, rng, is_hiding=True)


ABRIDGED: Change = _abridged
HIDING: Change = _hiding


def _cut_anywhere(quote: str, language: str, rng: random.Random) -> str:
    ends = [end for end, _ in _cuts(quote, language)]
    return quote[: rng.choice(ends)] if ends else quote


def _cut_beginning(quote: str, language: str, rng: random.Random) -> str:
    starts = [match.start() for match in _UNIT[language].finditer(quote)][1:]
    starts = [start for start in starts if start <= 0.3 * len(quote)]
    # At a comma nothing is cut but whole clauses, and an article is no loss.
    starts = [start for start in starts if not _CUTS_NOTHING.search(quote[:start])]
    return quote[rng.choice(starts) :] if starts else quote


def _cut_word(quote: str, language: str, rng: random.Random) -> str:
    """Begin inside the first long number, or end inside the last word."""
    if match := re.search(r"\d{2,}", quote):
        return quote[match.start() + 1 :]
    body = re.sub(r"\W+\Z", "", quote)
    return body[:-1] if language == "en" and re.search("[^\\W\\d_]{3}$", body) else quote


ALTERED: Mapping[str, Change] = {
    "other number": _other_number,
    "other order of digits": _other_digits,
    "negation or opposite": _negation,
    "swapped words": _swapped,
    "dropped word": _dropped,
    "added word": _added,
    "cut word or number": _cut_word,
    "end cut within a clause": _cut_within,
    "end cut before a condition or negation": _cut_turn,
    "beginning cut within a clause": _cut_beginning,
}
CUT_ANYWHERE: Change = _cut_anywhere


def _wide(quote: str, language: str, rng: random.Random) -> str:
    return quote.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F) if chr(code) != "*"})


def _other_marks(quote: str, language: str, rng: random.Random) -> str:
    if language == "en":
        return re.sub(r'"([^"]*)"', "“\\1”", quote).replace("'", "’").replace("-", "‑")
    return quote.translate(str.maketrans("，。；：“”’–—（）", ',.;:""\'--()'))


def _broken_lines(quote: str, language: str, rng: random.Random) -> str:
    if language == "zh":
        spots = [m.start() for m in re.finditer(r"(?<=[\u4e00-\u9fff])(?=[\u4e00-\u9fff])", quote)]
        at = rng.choice(spots) if spots else len(quote)
        return f"{quote[:at]}\n{quote[at:]}"
    hyphenated = re.sub(r"([a-z]{3})([a-z]{3})", "\\1-\n\\2", quote, count=1)
    return hyphenated.replace(" ", "\n", 1)


def _capitals(quote: str, language: str, rng: random.Random) -> str:
    return quote.upper()


def _more_space(quote: str, language: str, rng: random.Random) -> str:
    return f"  {quote} ".replace(" ", "\u00a0 ").replace("，", "， ")


def _ligatures(quote: str, language: str, rng: random.Random) -> str:
    for plain, joined in (
        ("ffi", "ﬃ"),
        ("fi", "ﬁ"),
        ("ff", "ﬀ"),
        ("fl", "ﬂ"),
        ("用", "⽤"),
        ("人", "⼈"),
    ):
        quote = quote.replace(plain, joined)
    return quote


def _in_marks(quote: str, language: str, rng: random.Random) -> str:
    return f"“{quote}”" if language == "en" else f"「{quote}」"


def _composed(quote: str, language: str, rng: random.Random) -> str:
    return unicodedata.normalize("NFD", quote)


def _no_stop(quote: str, language: str, rng: random.Random) -> str:
    return re.sub(r"[.。!！?？]+\Z", rng.choice(["", "…", "..."]), quote)


HONEST: Mapping[str, Change] = {
    "width": _wide,
    "marks": _other_marks,
    "line breaks and hyphens": _broken_lines,
    "case": _capitals,
    "white space": _more_space,
    "ligatures and radicals": _ligatures,
    "in quotation marks": _in_marks,
    "composition": _composed,
    "without its stop": _no_stop,
}


def says_the_same(left: str, right: str) -> bool:
    """Return whether two quotes differ by typography at most, so that neither alters the other."""
    return normalize_quote(left).text.strip("'.,;:!?") == normalize_quote(right).text.strip(
        "'.,;:!?"
    )
