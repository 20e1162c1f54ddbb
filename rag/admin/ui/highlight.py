"""Highlighting: splits a text into pieces, matched words apart from the rest."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from rag.stages.text.normalize import occurrences, to_simplified
from rag.stages.text.terms import query_terms

_WORD = re.compile(r"[a-z0-9]+(?:[-_./'+][a-z0-9]+)*[+#]*")
_PART = re.compile(r"[a-z0-9]+")


def split_matches(text: str, terms: Iterable[str]) -> list[tuple[str, bool]]:
    """Return ``text`` cut into pieces, each with whether it is a matched word.

    The pieces joined are ``text`` again. Terms are those of the index: stems of Latin words match
    every form of the word, others match wherever they are written.
    """
    wanted = frozenset(terms)
    folded, origin = _fold(text)
    spans = sorted({*_written(folded, wanted), *_stemmed(folded, wanted)})
    pieces: list[tuple[str, bool]] = []
    done = 0
    for start, end in spans:
        first, last = max(done, origin[start]), origin[end - 1] + 1
        if last <= first:
            continue
        if first > done:
            pieces.append((text[done:first], False))
        if pieces and pieces[-1][1]:
            pieces[-1] = (pieces[-1][0] + text[first:last], True)
        else:
            pieces.append((text[first:last], True))
        done = last
    if done < len(text):
        pieces.append((text[done:], False))
    return pieces


def _fold(text: str) -> tuple[str, list[int]]:
    """Return the text as terms see it, and for each of its characters the one it came from."""
    folded: list[str] = []
    origin: list[int] = []
    for position, character in enumerate(text):
        form = unicodedata.normalize("NFKC", character).casefold()
        folded.append(form)
        origin += [position] * len(form)
    return "".join(folded), origin


def _written(folded: str, terms: frozenset[str]) -> Iterator[tuple[int, int]]:
    simplified = to_simplified(folded)
    for term in terms:
        if term.isascii():
            continue
        for text in dict.fromkeys((folded, simplified)):
            yield from ((at, at + len(term)) for at in occurrences(text, term))


def _stemmed(folded: str, terms: frozenset[str]) -> Iterator[tuple[int, int]]:
    if not any(term.isascii() for term in terms):
        return
    for match in _WORD.finditer(folded):
        word = match.group()
        parts = list(_PART.finditer(word))
        if word in terms or (len(parts) == 1 and _is_form(word, terms)):
            yield match.span()
            continue
        for part in parts:
            if _is_form(part.group(), terms):
                yield match.start() + part.start(), match.start() + part.end()


def _is_form(word: str, terms: frozenset[str]) -> bool:
    return not terms.isdisjoint(query_terms(word))
