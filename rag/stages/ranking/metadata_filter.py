"""Metadata filter language (AIP-160): parses ``lang = "zh" AND year > 2020`` into a test.

OR binds closer than AND, as the standard has it. Nothing is evaluated but comparisons.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from rag.core.errors import InvalidInputError

MetadataTest = Callable[[Mapping[str, Any]], bool]
MAX_CHARS, MAX_DEPTH = 4000, 50
_TOKEN = re.compile(
    r"""(?P<text>(?s:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))|(?P<sign><=|>=|!=|[=<>()])"""
    r"""|(?P<word>[^\s()<>=!"']+)"""
)
_NUMBER = re.compile(r"-?(?:[0-9]{1,400}|[0-9]{0,40}\.[0-9]{1,40}(?:[eE][-+]?[0-9]{1,3})?)")
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The test of ``key sign wanted``, such as ``year > 2020``."""

    key: str
    sign: str
    wanted: str | float

    def __call__(self, values: Mapping[str, Any]) -> bool:
        return _holds(values.get(self.key), _SIGNS[self.sign], self.wanted)


@dataclass(frozen=True, slots=True)
class BooleanTest:
    """The test of several tests: all of them must pass (AND), or one (OR)."""

    tests: tuple[MetadataTest, ...]
    is_all: bool

    def __call__(self, values: Mapping[str, Any]) -> bool:
        passed = (test(values) for test in self.tests)
        return all(passed) if self.is_all else any(passed)


def parse_metadata_filter(text: str) -> MetadataTest:
    """Return the test of a filter; raise InvalidInputError with the place that cannot be read.

    A key that a document lacks passes no comparison. A list equals each text that it holds. Whoever
    looks for files elsewhere may look into a ``Comparison`` or ``BooleanTest``; others are opaque.
    """
    reader = _Reader(text, _tokens(text))
    test = reader.sequence(0)
    if reader.peek():
        reader.fail(reader.peek())
    return test


def metadata_filter_of(values: Mapping[str, Any]) -> str:
    """Return the filter that asks for each of these values; empty for none.

    Raises InvalidInputError for a value that is neither text, number nor truth.
    """
    return " AND ".join(f"{key} = {_literal(key, value)}" for key, value in values.items())


def _literal(key: str, value: Any) -> str:
    is_plain = isinstance(value, (str, int)) and not isinstance(value, bool)
    if not is_plain and not (isinstance(value, float) and math.isfinite(value)):
        raise InvalidInputError(
            "The metadata “{key}” cannot be filtered by {value}.",
            hint="Allowed: a text or a number.",
            key=key,
            value=value,
        )
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    # 1e+22 is a word for filters, 1.0e+22 a number.
    return re.sub(r"^(-?\d+)e", r"\1.0e", str(value))


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    if len(text) > MAX_CHARS:
        raise _unreadable(text[:20], MAX_CHARS)
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text[at : at + 20], at)
        found.append(match[0])
        at = match.end()
    return found


class _Reader:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            self.fail("…")
        self._at += 1
        return token

    def fail(self, token: str) -> NoReturn:
        raise _unreadable(token, self._at)

    def sequence(self, depth: int) -> MetadataTest:
        if depth > MAX_DEPTH:
            self.fail("(")
        tests = [self._either(depth)]
        while self.peek() == "AND":
            self.take()
            tests.append(self._either(depth))
        return tests[0] if len(tests) == 1 else BooleanTest(tuple(tests), is_all=True)

    def _either(self, depth: int) -> MetadataTest:
        tests = [self._term(depth)]
        while self.peek() == "OR":
            self.take()
            tests.append(self._term(depth))
        return tests[0] if len(tests) == 1 else BooleanTest(tuple(tests), is_all=False)

    def _term(self, depth: int) -> MetadataTest:
        n_not = 0
        while self.peek() in ("NOT", "-"):
            self.take()
            n_not += 1
        if self.peek() == "(":
            self.take()
            test = self.sequence(depth + 1)
            if self.take() != ")":
                self.fail("(")
        else:
            test = self._comparison()
        return test if n_not % 2 == 0 else lambda values: not test(values)

    def _comparison(self) -> MetadataTest:
        key, sign, wanted = self.take(), self.take(), self.take()
        if sign not in _SIGNS or key[0] in "\"'()=<>!" or wanted in "()=<>!":
            self.fail(f"{key} {sign} {wanted}")
        return Comparison(key, sign, _value(wanted))


def _unreadable(token: str, place: int) -> InvalidInputError:
    return InvalidInputError(
        "The metadata filter cannot be read at “{token}”.",
        hint='Write it as lang = "zh" AND year > 2020.',
        token=token,
        place=place,
    )


def _value(token: str) -> str | float:
    if token[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.S)
    if not _NUMBER.fullmatch(token):
        return token
    # A whole number is compared exactly, however large.
    return int(token) if token.lstrip("-").isdigit() else float(token)


def _holds(held: Any, compare: Callable[[Any, Any], bool], wanted: str | float) -> bool:
    if held is None:
        return False
    if isinstance(held, (list, tuple)):
        if compare is operator.ne:
            return not any(_holds(item, operator.eq, wanted) for item in held)
        return any(_holds(item, compare, wanted) for item in held)
    if isinstance(held, bool) or not isinstance(held, (str, int, float)):
        held = str(held).lower()
    if isinstance(held, str) != isinstance(wanted, str):
        return compare is operator.ne
    return compare(held, wanted)
