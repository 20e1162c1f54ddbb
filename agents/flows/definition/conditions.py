"""CEL conditions of edges, evaluated to true or false, never to an exception.

Common Expression Language (github.com/google/cel-spec), each comparison on its own: one that needs
a missing variable, or compares what cannot be compared, is false and is reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agents.flows.definition.condition_parser import (
    ConditionNode,
    ConditionToken,
    abbreviate,
    parse_condition,
)
from rag.core.errors import InvalidInputError, UnknownNameError

ALWAYS = "always"
# No loops over lists: an expression costs no more than its length.
FUNCTIONS = (
    "contains",
    "double",
    "endsWith",
    "has",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
)
_LOOPS = frozenset({"all", "exists", "exists_one", "filter", "map"})
_KEYWORDS = frozenset({"true", "false", "null", "in"})
# Words that CEL keeps for itself, and models call variables by all the same.
_RESERVED = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "namespace",
        "package",
        "return",
        "var",
        "void",
        "while",
    }
)
_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """Whether a condition holds; ``missing`` variables and ``mistakes`` made comparisons false."""

    is_true: bool
    missing: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Atom:
    text: str
    program: Any
    names: tuple[str, ...]


@dataclass(slots=True)
class _Report:
    missing: dict[str, None] = field(default_factory=dict)
    mistakes: dict[str, None] = field(default_factory=dict)


class Condition:
    """A condition ready to be asked, from any thread."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.is_always = self.text == ALWAYS
        self._atoms: dict[int, _Atom] = {}
        self._tree = ConditionNode("and") if self.is_always else parse_condition(self.text)
        self._prepare(self._tree)

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names that the condition asks for, in order of the alphabet."""
        return tuple(sorted({name for atom in self._atoms.values() for name in atom.names}))

    @property
    def n_comparisons(self) -> int:
        """Return of how many comparisons it consists."""
        return len(self._atoms)

    def evaluate(self, values: Mapping[str, Any]) -> ConditionResult:
        """Return the verdict on ``values``; what && and || need not look at is not reported."""
        report = _Report()
        is_true = self._ask(self._tree, values, report)
        return ConditionResult(is_true, tuple(report.missing), tuple(report.mistakes))

    def _prepare(self, branch: ConditionNode) -> None:
        if branch.kind == "atom":
            self._atoms[id(branch)] = _compile(self.text, branch.tokens)
        for part in branch.parts:
            self._prepare(part)

    def _ask(self, branch: ConditionNode, values: Mapping[str, Any], report: _Report) -> bool:
        if branch.kind == "atom":
            return _holds(self._atoms[id(branch)], values, report)
        answers = (self._ask(part, values, report) for part in branch.parts)
        if branch.kind == "not":
            return not next(answers)
        return any(answers) if branch.kind == "or" else all(answers)


@lru_cache(maxsize=1024)
def compile_condition(text: str) -> Condition:
    """Return the condition of a text; raise InvalidInputError saying where it is wrong."""
    return Condition(text)


def _compile(whole: str, tokens: Sequence[ConditionToken]) -> _Atom:
    start, end = tokens[0].start, tokens[-1].start + len(tokens[-1].text)
    text = whole[start:end]
    names = _names(tokens)
    for token in (token for token in tokens if _is_called(tokens, token)):
        if token.text in _LOOPS:
            raise InvalidInputError(
                "“{name}” in the condition “{text}” goes through a list.",
                hint="Use in, contains or size.",
                name=token.text,
                text=abbreviate(text),
            )
        if token.text not in FUNCTIONS:
            raise UnknownNameError("function of a condition", token.text, FUNCTIONS)
    # Its package brings a terminal program along, a tenth of a second of every command.
    import cel

    try:
        program = cel.compile(_ascii(tokens))
    except _FAILURES as error:
        reason = re.sub(r"\s+", " ", str(error).partition("ERROR: ")[2] or str(error))
        raise InvalidInputError(
            "The condition “{text}” cannot be read: {reason}.",
            hint="Conditions are CEL, such as: {example}.",
            text=abbreviate(text),
            reason=reason.removeprefix("<input>:").partition("|")[0].strip(),
            example='analysis_result == "sufficient" && confidence >= 0.8',
        ) from error
    return _Atom(text, program, names)


def _holds(atom: _Atom, values: Mapping[str, Any], report: _Report) -> bool:
    missing = [name for name in atom.names if name not in values]
    if missing:
        report.missing.update(dict.fromkeys(missing))
        return False
    try:
        answer = atom.program.execute({_plain(name): values[name] for name in atom.names})
    except _FAILURES as error:
        reason = "No such key" if isinstance(error, LookupError) else str(error)
        reason = re.split(r"[.:]", reason)[0]
        report.mistakes[f"{abbreviate(atom.text)}: {reason}"] = None
        return False
    if not isinstance(answer, bool):
        report.mistakes[f"{abbreviate(atom.text)}: not true or false"] = None
        return False
    return answer


def _names(tokens: Sequence[ConditionToken]) -> tuple[str, ...]:
    """Return the variables: names that are neither fields, nor called, nor words of CEL."""
    found: dict[str, None] = {}
    for number, token in enumerate(tokens):
        is_field = number > 0 and tokens[number - 1].text == "."
        if (
            token.kind == "name"
            and not is_field
            and token.text not in _KEYWORDS
            and not _is_called(tokens, token)
        ):
            found[token.text] = None
    return tuple(found)


def _is_called(tokens: Sequence[ConditionToken], token: ConditionToken) -> bool:
    number = next(place for place, other in enumerate(tokens) if other is token)
    return (
        token.kind == "name"
        and number + 1 < len(tokens)
        and tokens[number + 1].text == "("
        and token.text != "in"
    )


def _ascii(tokens: Sequence[ConditionToken]) -> str:
    """Return the tokens as CEL can read them: its names are ASCII and none of its own words."""
    parts: list[str] = []
    for number, token in enumerate(tokens):
        is_field = number > 0 and tokens[number - 1].text == "."
        if token.kind == "name" and is_field and _plain(token.text) != token.text:
            parts[-1] = f'["{token.text}"]'
        else:
            parts.append(_plain(token.text) if token.kind == "name" else token.text)
    return " ".join(parts)


def _plain(name: str) -> str:
    is_free = name.isascii() and name not in _RESERVED
    return name if is_free else "v_" + name.encode().hex()
