"""Subject of a question: its content phrases, which of them is a name, whether it stands alone.

By word lists of both languages, without a model; nothing is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.stages.query.subject_words import EMPTY, RELATION_ENDS, RELATIONS
from rag.stages.text.normalize import to_simplified
from rag.stages.text.terms import segment_han

MAX_CHARACTERS = 300
_TOKEN = re.compile(
    r"《[^《》]{1,100}》|“[^“”]{1,100}”|「[^「」]{1,100}」|\"[^\"]{1,100}\""
    r"|(?P<han>[\u3400-\u9fff\uf900-\ufaff]+)"
    r"|[^\W_\u2e80-\U0010ffff]+(?:[-/.'’+&][^\W_\u2e80-\U0010ffff]+)*[+#]*"
)
_HAN = re.compile(r"[\u3400-\u9fff]")
# They join the words of one name: Battle of Hastings.
_IN_NAMES = frozenset(("of", "in", "and", "the", "de", "la", "von", "der", "&", "for", "to", "on"))
_BEHIND_OF = re.compile(r"\bof (?:an? |the |my |our |your )?$", re.I)
_NUMBER = re.compile(r"[\d〇零一二三四五六七八九十百千两半]+")


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a question: ``text[start:end]``."""

    word: str
    start: int
    end: int
    is_name: bool = False

    @property
    def folded(self) -> str:
        """Return the word as the lists have it."""
        return to_simplified(self.word).casefold().replace("’", "'")

    @property
    def has_content(self) -> bool:
        """Return whether it says something of a subject."""
        return self.is_name or (self.folded not in EMPTY and not _NUMBER.fullmatch(self.word))

    @property
    def is_proper(self) -> bool:
        """Return whether it is a name and no short acronym such as CPU."""
        return self.is_name and not (
            self.word.isupper() and self.word.isalpha() and len(self.word) <= 3
        )

    @property
    def is_relation(self) -> bool:
        """Return whether it is what any thing has: a price, a warranty."""
        return not self.is_name and self.folded in RELATIONS

    @property
    def needs_owner(self) -> bool:
        """Return whether it is said of something else, such as 电导率."""
        is_chinese = len(self.word) > 1 and bool(_HAN.match(self.word))
        return self.is_relation or (is_chinese and self.folded.endswith(RELATION_ENDS))


@dataclass(frozen=True, slots=True)
class Phrase:
    """Content words side by side, as they stand in the question."""

    text: str
    tokens: tuple[Token, ...]
    is_owner: bool = False
    """Whether it stands behind “of”."""

    @property
    def is_name(self) -> bool:
        """Return whether it holds a name: a code, a title, a word in capitals."""
        return any(token.is_name for token in self.tokens)


def tokens_of(text: str) -> list[Token]:
    """Return the words of the beginning of a text."""
    return list(_tokens(text[:MAX_CHARACTERS]))


def _tokens(text: str) -> Iterator[Token]:
    is_first = True
    is_chinese = bool(_HAN.search(text))
    for match in _TOKEN.finditer(text):
        at = match.start()
        if match["han"]:
            for word in _han_words(match["han"]):
                yield Token(word, at, at + len(word))
                at += len(word)
        else:
            word = match.group()
            yield Token(word, at, match.end(), _is_name(word, is_first and not is_chinese))
        is_first = bool(re.search(r"[.?!]\s*$", text[match.end() : match.end() + 2]))


def _han_words(run: str) -> Iterator[str]:
    """Yield the words as written; 年 and 假 are one, as are 月 and 卡."""
    at = 0
    for word in _joined_words(segment_han(to_simplified(run))):
        yield run[at : at + len(word)]
        at += len(word)


def _joined_words(words: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in words:
        if before and (len(word) > 1 or word in EMPTY):
            yield before
            before = ""
        if not before and word in ("年", "月", "日"):
            before = word
            continue
        yield before + word
        before = ""
    if before:
        yield before


def _is_name(word: str, is_first: bool) -> bool:
    if word[0] in '《“「"':
        return True
    has_digit = any(character.isdigit() for character in word)
    has_letter = any(character.isalpha() for character in word)
    if has_digit and has_letter:
        return True
    is_capital = word[0].isupper() and word.casefold() not in EMPTY
    return is_capital and (not is_first or (len(word) > 1 and word.isupper()))


def content_phrases(text: str, *, has_relations: bool = False) -> list[Phrase]:
    """Return what a question is about, in its order; without words for what a thing has.

    ``has_relations`` keeps those.
    """
    phrases: list[Phrase] = []
    held: list[Token] = []
    for token in tokens_of(text):
        is_kept = token.has_content and (has_relations or not token.is_relation)
        between = text[held[-1].end : token.start] if held else ""
        joins = between.strip().casefold() in ("", "的") or _joins_names(held, between, token)
        if held and (not is_kept or not joins):
            if token.folded in ("的", *_IN_NAMES):
                continue
            phrases.append(_phrase(text, held))
            held = []
        if is_kept:
            if held and not joins:
                phrases.append(_phrase(text, held))
                held = []
            held.append(token)
    return [*phrases, _phrase(text, held)] if held else phrases


def _joins_names(held: Sequence[Token], between: str, token: Token) -> bool:
    words = between.split()
    is_joint = bool(words) and all(word.casefold() in _IN_NAMES for word in words)
    return is_joint and held[-1].is_name and token.is_name


def _phrase(text: str, tokens: Sequence[Token]) -> Phrase:
    start = tokens[0].start
    is_owner = bool(_BEHIND_OF.search(text[max(0, start - 12) : start]))
    return Phrase(text[start : tokens[-1].end], tuple(tokens), is_owner)


def leading_nouns(text: str) -> str:
    """Return the nouns that a Chinese text begins with, empty where it begins otherwise."""
    import rjieba  # its dictionary takes a tenth of a second

    nouns = ""
    for word, kind in rjieba.tag(text):
        if not kind.startswith(("n", "eng", "j", "l", "i", "vn")) and word != "的":
            break
        nouns += word
    return nouns
