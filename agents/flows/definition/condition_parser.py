"""Condition parser: and, or, not over atoms, each a piece of CEL without logical operators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag.core.errors import InvalidInputError

MAX_LENGTH = 2000
MAX_DEPTH = 30
MAX_SHOWN = 120
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>[rR]?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<logic>&&|\|\|)
    |(?P<mark>[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.X,
)
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class ConditionToken:
    """A piece of a condition: its kind, its text and where it stands."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class ConditionNode:
    """``and``, ``or`` or ``not`` over parts, or ``atom`` over tokens."""

    kind: str
    parts: tuple[ConditionNode, ...] = ()
    tokens: tuple[ConditionToken, ...] = ()


def parse_condition(text: str) -> ConditionNode:
    """Return the tree of a condition; raise InvalidInputError with the place of a mistake.

    At most 2,000 characters and 30 brackets deep.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidInputError(
            "A condition has {n} characters.",
            hint="At most {limit}.",
            n=len(text),
            limit=MAX_LENGTH,
        )
    tokens = _tokens(text)
    if not tokens:
        raise InvalidInputError("A condition is empty.", hint="Write always, or a comparison.")
    _check_brackets(text, tokens)
    return _either(tokens)


def abbreviate(text: str) -> str:
    """Return a text as messages show it."""
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _tokens(text: str) -> list[ConditionToken]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _mistake(text, position, text[position])
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(ConditionToken(kind, match.group(), position))
        position = match.end()
    return tokens


def _check_brackets(text: str, tokens: Sequence[ConditionToken]) -> None:
    is_open: list[ConditionToken] = []
    for token in tokens:
        if token.kind != "mark":
            continue
        if token.text in _OPEN:
            is_open.append(token)
            if len(is_open) > MAX_DEPTH:
                raise InvalidInputError(
                    "A condition is nested more than {limit} deep.", limit=MAX_DEPTH
                )
        elif token.text in _CLOSE and (
            not is_open or _OPEN.index(is_open.pop().text) != _CLOSE.index(token.text)
        ):
            raise _mistake(text, token.start, token.text)
    if is_open:
        raise _mistake(text, is_open[-1].start, is_open[-1].text)


def _either(tokens: Sequence[ConditionToken]) -> ConditionNode:
    # With a choice (a ? b : c) at this level the operators belong to its parts.
    if any(token.text == "?" for token in _at_top(tokens)):
        return _atom(tokens)
    parts = _split(tokens, "||")
    return _both(parts[0]) if len(parts) == 1 else ConditionNode("or", tuple(map(_both, parts)))


def _both(tokens: Sequence[ConditionToken]) -> ConditionNode:
    parts = _split(tokens, "&&")
    return _one(parts[0]) if len(parts) == 1 else ConditionNode("and", tuple(map(_one, parts)))


def _one(tokens: Sequence[ConditionToken]) -> ConditionNode:
    n_not = 0
    while n_not < len(tokens) and tokens[n_not].text == "!" and tokens[n_not].kind == "mark":
        n_not += 1
    inner = tokens[n_not:]
    if n_not and not (_is_bracketed(inner) or not _has_comparison(inner)):
        # "!a == b" negates a, not the comparison.
        return _atom(tokens)
    branch = _either(inner[1:-1]) if _is_bracketed(inner) and len(inner) > 2 else _atom(inner)
    return ConditionNode("not", (branch,)) if n_not % 2 else branch


def _atom(tokens: Sequence[ConditionToken]) -> ConditionNode:
    if not tokens:
        raise InvalidInputError(
            "A condition lacks a comparison beside && or ||.", hint="Write one on both sides."
        )
    return ConditionNode("atom", tokens=tuple(tokens))


def _has_comparison(tokens: Sequence[ConditionToken]) -> bool:
    return any(
        token.text in ("==", "!=", "<", ">", "<=", ">=", "in") and token.kind != "text"
        for token in _at_top(tokens)
    )


def _is_bracketed(tokens: Sequence[ConditionToken]) -> bool:
    """Return whether one pair of brackets holds all of the tokens."""
    if not tokens or tokens[0].text != "(" or tokens[-1].text != ")":
        return False
    depth = 0
    for number, token in enumerate(tokens):
        if token.kind == "mark":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if depth == 0:
            return number == len(tokens) - 1
    return False


def _at_top(tokens: Sequence[ConditionToken]) -> list[ConditionToken]:
    depth, found = 0, []
    for token in tokens:
        if token.kind == "mark" and token.text in _CLOSE:
            depth -= 1
        if depth == 0:
            found.append(token)
        if token.kind == "mark" and token.text in _OPEN:
            depth += 1
    return found


def _split(tokens: Sequence[ConditionToken], operator: str) -> list[Sequence[ConditionToken]]:
    places = {id(token) for token in _at_top(tokens) if token.kind == "logic"}
    parts: list[list[ConditionToken]] = [[]]
    for token in tokens:
        if id(token) in places and token.text == operator:
            parts.append([])
        else:
            parts[-1].append(token)
    return [*parts]


def _mistake(text: str, position: int, found: str) -> InvalidInputError:
    return InvalidInputError(
        "The condition “{text}” cannot be read at character {place} (“{found}”).",
        hint="Conditions are CEL, such as: {example}.",
        text=abbreviate(text),
        place=position + 1,
        found=found,
        example='analysis_result == "sufficient" && confidence >= 0.8',
    )
