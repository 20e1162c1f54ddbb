"""Fake Gemini: AIP-160 filters over customMetadata.

Comparisons with =, !=, <, <=, >, >=, joined by AND, OR, NOT and brackets; OR binds closer than AND,
as the standard has it. A list of texts equals each text that it holds.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign><=|>=|!=|=|<|>|\(|\))"""
    r"""|(?P<word>[^\s()<>=!"']+))"""
)
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Test = Callable[[dict[str, Any]], bool]


class FilterMistake(ValueError):
    """The filter cannot be read."""


def read_filter(text: str) -> Test:
    """Return the test; raise FilterMistake with what is wrong."""
    if not text.strip():
        return lambda _: True
    reader = _Reader(_tokens(text))
    test = reader.sequence()
    if reader.peek():
        raise FilterMistake(f"unexpected {reader.peek()}")
    return test


def values_of(metadata: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return customMetadata as plain values by key."""
    found: dict[str, Any] = {}
    for entry in metadata:
        if "stringValue" in entry:
            found[entry["key"]] = entry["stringValue"]
        elif "numericValue" in entry:
            found[entry["key"]] = entry["numericValue"]
        else:
            found[entry["key"]] = entry.get("stringListValue", {}).get("values", [])
    return found


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if not match:
            raise FilterMistake(f"unreadable at {at}")
        found.append(match[0].strip())
        at = match.end()
    return found


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise FilterMistake("unexpected end")
        self._at += 1
        return token

    def sequence(self) -> Test:
        tests = [self._either()]
        while self.peek() == "AND":
            self.take()
            tests.append(self._either())
        return lambda values: all(test(values) for test in tests)

    def _either(self) -> Test:
        tests = [self._term()]
        while self.peek() == "OR":
            self.take()
            tests.append(self._term())
        return lambda values: any(test(values) for test in tests)

    def _term(self) -> Test:
        if self.peek() in ("NOT", "-"):
            self.take()
            inner = self._term()
            return lambda values: not inner(values)
        if self.peek() == "(":
            self.take()
            inner = self.sequence()
            if self.take() != ")":
                raise FilterMistake("a bracket is not closed")
            return inner
        return self._comparison()

    def _comparison(self) -> Test:
        key, sign, value = self.take(), self.take(), _value(self.take())
        if sign not in _SIGNS:
            raise FilterMistake(f"unknown sign {sign}")
        return lambda values: _holds(values.get(key), _SIGNS[sign], value)


def _value(token: str) -> str | float:
    if token[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    try:
        return float(token)
    except ValueError:
        return token


def _holds(held: Any, compare: Callable[[Any, Any], bool], wanted: str | float) -> bool:
    if held is None:
        return False
    if isinstance(held, list):
        if compare is operator.ne:
            return wanted not in held
        return any(_holds(item, compare, wanted) for item in held)
    if isinstance(held, str) != isinstance(wanted, str):
        return compare is operator.ne
    return compare(held, wanted)
