"""CEL conditions of edges, evaluated to true or false, never to an exception, and the edge taken.

Common Expression Language (github.com/google/cel-spec), each comparison on its own: one that needs
a missing variable, or compares what cannot be compared, is false and is reported. So ``&&``,
``||``, ``!`` and brackets around them are read here; what stands between them is a CEL program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import dropwhile
from typing import Any

from agents.flows.definition.definition import DEFAULT, END, FAILURE, EdgeDefinition
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
# What Python has for it, and people write.
_OTHER_WORDS = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "True": "true",
    "False": "false",
    "None": "null",
}
# Words that CEL keeps for itself, and models call variables by all the same.
_RESERVED = re.compile(
    "as|break|const|continue|else|for|function|if|import|let|loop|namespace|package|return|var|"
    "void|while"
)
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">=", "in"})
_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
MAX_LENGTH, MAX_DEPTH, MAX_SHOWN = 2000, 30, 120
_EXAMPLE = 'analysis_result == "sufficient" && confidence >= 0.8'
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>[rR]?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<mark>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.X,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece of a condition; a bracket is as deep as what stands around it."""

    kind: str
    text: str
    start: int
    depth: int


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """Whether a condition holds; ``missing`` variables and ``mistakes`` made comparisons false."""

    is_true: bool
    missing: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Report:
    missing: dict[str, None] = field(default_factory=dict)
    mistakes: dict[str, None] = field(default_factory=dict)


_Test = Callable[[Mapping[str, Any], _Report], bool]


class Condition:
    """A condition ready to be asked, from any thread."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self._atoms: list[_Atom] = []
        is_always = self.text == ALWAYS
        self._holds: _Test = _conjunction([]) if is_always else self._read(_tokens(self.text))

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names that the condition asks for, in order of the alphabet."""
        return tuple(sorted({name for atom in self._atoms for name in atom.names}))

    @property
    def n_comparisons(self) -> int:
        """Return of how many comparisons it consists."""
        return len(self._atoms)

    def evaluate(self, values: Mapping[str, Any]) -> ConditionResult:
        """Return the verdict on ``values``; what && and || need not look at is not reported."""
        report = _Report()
        is_true = self._holds(values, report)
        return ConditionResult(is_true, tuple(report.missing), tuple(report.mistakes))

    def _read(self, tokens: Sequence[_Token]) -> _Test:
        """Return the test of an expression: its operators outside of brackets, or a comparison."""
        inner = list(dropwhile(lambda token: token.text == "!", tokens))
        if not inner:
            raise InvalidInputError(
                "A condition lacks a comparison beside && or ||.", hint="Write one on both sides."
            )
        marks = {token.text for token in _outside(tokens) if token.kind != "text"}
        # With a choice (a ? b : c) at this level the operators belong to its parts.
        if "?" in marks:
            return self._atom(tokens)
        for operator, joined in (("||", _disjunction), ("&&", _conjunction)):
            if operator in marks:
                return joined([self._read(part) for part in _split(tokens, operator)])
        n_not = len(tokens) - len(inner)
        is_bracketed = len(inner) > 2 and inner[0].text == "(" and len(_outside(inner)) == 2
        if not is_bracketed and (not n_not or marks & _COMPARISONS):
            # "!a == b" negates a, not the comparison.
            return self._atom(tokens)
        test = self._read(inner[1:-1]) if is_bracketed else self._atom(inner)
        return (lambda values, report: not test(values, report)) if n_not % 2 else test

    def _atom(self, tokens: Sequence[_Token]) -> _Test:
        self._atoms.append(atom := _compile(self.text, tokens))
        return atom.holds


def _conjunction(tests: Sequence[_Test]) -> _Test:
    return lambda values, report: all(test(values, report) for test in tests)


def _disjunction(tests: Sequence[_Test]) -> _Test:
    return lambda values, report: any(test(values, report) for test in tests)


@lru_cache(maxsize=1024)
def compile_condition(text: str) -> Condition:
    """Return the condition of a text; raise InvalidInputError saying where it is wrong.

    At most 2,000 characters and 30 brackets deep.
    """
    return Condition(text)


def _tokens(text: str) -> list[_Token]:
    if len(text) > MAX_LENGTH:
        raise InvalidInputError(
            "A condition has {n} characters.",
            hint="At most {limit}.",
            n=len(text),
            limit=MAX_LENGTH,
        )
    tokens: list[_Token] = []
    is_open: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _mistake(text, position, text[position])
        kind, piece = str(match.lastgroup), match.group()
        if piece in _CLOSING.values() and (not is_open or _CLOSING[is_open.pop().text] != piece):
            raise _mistake(text, position, piece)
        if kind == "name" and piece in _OTHER_WORDS and text[:position].rstrip()[-1:] != ".":
            raise _other_word(text, piece)
        token = _Token(kind, piece, position, len(is_open))
        if kind != "space":
            tokens.append(token)
        if piece in _CLOSING:
            is_open.append(token)
        if len(is_open) > MAX_DEPTH:
            raise InvalidInputError(
                "A condition is nested more than {limit} deep.", limit=MAX_DEPTH
            )
        position = match.end()
    if is_open:
        raise _mistake(text, is_open[-1].start, is_open[-1].text)
    if not tokens:
        raise InvalidInputError("A condition is empty.", hint="Write always, or a comparison.")
    return tokens


def _outside(tokens: Sequence[_Token]) -> list[_Token]:
    """Return the tokens that stand in no bracket of these, and the brackets themselves."""
    return [token for token in tokens if token.depth == tokens[0].depth]


def _split(tokens: Sequence[_Token], operator: str) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token in tokens:
        if token.text == operator and token.depth == tokens[0].depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


@dataclass(frozen=True, slots=True)
class _Atom:
    text: str
    program: Any
    names: tuple[str, ...]

    def holds(self, values: Mapping[str, Any], report: _Report) -> bool:
        missing = [name for name in self.names if name not in values]
        if missing:
            report.missing.update(dict.fromkeys(missing))
            return False
        try:
            answer = self.program.execute({_plain(name): values[name] for name in self.names})
        except _FAILURES as error:
            reason = "No such key" if isinstance(error, LookupError) else str(error)
            reason = re.split(r"[.:]", reason)[0]
        else:
            if isinstance(answer, bool):
                return answer
            reason = "not true or false"
        report.mistakes[f"{_abbreviate(self.text)}: {reason}"] = None
        return False


def _compile(whole: str, tokens: Sequence[_Token]) -> _Atom:
    # Its package brings a terminal program along, a tenth of a second of every command.
    import cel

    text = whole[tokens[0].start : tokens[-1].start + len(tokens[-1].text)]
    # As CEL can read them: its names are ASCII and none of its own words.
    parts: list[str] = []
    names: dict[str, None] = {}
    pieces = [token.text for token in tokens]
    for before, token, after in zip(["", *pieces], tokens, [*pieces[1:], ""], strict=False):
        if token.kind != "name" or token.text in _KEYWORDS:
            parts.append(token.text)
        elif after == "(":
            _check_function(token.text, text)
            parts.append(token.text)
        elif before == ".":
            is_plain = _plain(token.text) == token.text
            parts[-1:] = [".", token.text] if is_plain else [f'["{token.text}"]']
        else:
            names[token.text] = None
            parts.append(_plain(token.text))
    try:
        program = cel.compile(" ".join(parts))
    except _FAILURES as error:
        reason = re.sub(r"\s+", " ", str(error).partition("ERROR: ")[2] or str(error))
        raise InvalidInputError(
            "The condition “{text}” cannot be read: {reason}.",
            hint="Conditions are CEL, such as: {example}.",
            text=_abbreviate(text),
            reason=reason.removeprefix("<input>:").partition("|")[0].strip(),
            example=_EXAMPLE,
        ) from error
    return _Atom(text, program, tuple(names))


def _check_function(name: str, text: str) -> None:
    if name in _LOOPS:
        raise InvalidInputError(
            "“{name}” in the condition “{text}” goes through a list.",
            hint="Use in, contains or size.",
            name=name,
            text=_abbreviate(text),
        )
    if name not in FUNCTIONS:
        raise UnknownNameError("function of a condition", name, FUNCTIONS)


def _plain(name: str) -> str:
    is_free = name.isascii() and not _RESERVED.fullmatch(name)
    return name if is_free else "v_" + name.encode().hex()


def _abbreviate(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _mistake(text: str, position: int, found: str) -> InvalidInputError:
    return InvalidInputError(
        "The condition “{text}” cannot be read at character {place} (“{found}”).",
        hint="Conditions are CEL, such as: {example}.",
        text=_abbreviate(text),
        place=position + 1,
        found=found,
        example=_EXAMPLE,
    )


def _other_word(text: str, found: str) -> InvalidInputError:
    return InvalidInputError(
        "“{found}” in the condition “{text}” is a word of another language.",
        hint="Write {mend}.",
        found=found,
        text=_abbreviate(text),
        mend=_OTHER_WORDS[found],
    )


_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class EdgeTest:
    """One condition that was asked: its verdict, and the values that it was asked of."""

    condition: str
    targets: tuple[str, ...]
    is_true: bool
    values: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeChoice:
    """The edge that was taken; ``missing`` variables and ``mistakes`` made comparisons false.

    ``tests`` are the conditions that were asked before, this one among them, as JSON.
    """

    targets: tuple[str, ...]
    condition: str
    missing: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    tests: tuple[Mapping[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, without the values that conditions were asked of."""
        return {
            "targets": list(self.targets),
            "condition": self.condition,
            "missing": list(self.missing),
            "mistakes": list(self.mistakes),
        }


def choose_edge(
    node: str, edges: Sequence[EdgeDefinition], values: Mapping[str, Any]
) -> EdgeChoice:
    """Return the route of the first edge in the file's order whose condition holds.

    ``default`` holds when no other does, wherever it stands; without any edge a node is a last
    one; ``failure`` holds where the node failed. Raises InvalidInputError naming values and
    conditions when none holds.
    """
    if values.get("failed_node") == node:
        failed = [edge for edge in edges if edge.condition.strip() == FAILURE]
        if failed:
            return EdgeChoice(_targets(failed[0]), FAILURE)
    edges = [edge for edge in edges if edge.condition.strip() != FAILURE]
    if not edges:
        return EdgeChoice((END,), ALWAYS)
    missing: dict[str, None] = {}
    mistakes: dict[str, None] = {}
    default: EdgeDefinition | None = None
    tests: list[Mapping[str, Any]] = []
    for edge in edges:
        text = edge.condition.strip()
        if text == DEFAULT:
            default = default or edge
            continue
        verdict = compile_condition(text).evaluate(values)
        missing.update(dict.fromkeys(verdict.missing))
        mistakes.update(dict.fromkeys(verdict.mistakes))
        tests += [_test(edge, verdict, values)] if text != ALWAYS else []
        if verdict.is_true:
            return EdgeChoice(_targets(edge), text, tuple(missing), tuple(mistakes), tuple(tests))
    if default is not None:
        return EdgeChoice(_targets(default), DEFAULT, tuple(missing), tuple(mistakes), tuple(tests))
    raise InvalidInputError(
        "After “{node}” no condition holds: {conditions}. The values are: {values}.",
        hint="Add an edge with the condition default.",
        node=node,
        conditions="; ".join(edge.condition.strip() for edge in edges),
        values=_shown(edges, values),
    )


def _test(
    edge: EdgeDefinition, verdict: ConditionResult, values: Mapping[str, Any]
) -> dict[str, Any]:
    text = edge.condition.strip()
    names = compile_condition(text).variables
    asked_of = {name: values[name] for name in names if name in values}
    told = EdgeTest(
        text, _targets(edge), verdict.is_true, asked_of, verdict.missing, verdict.mistakes
    )
    return asdict(told)


def _targets(edge: EdgeDefinition) -> tuple[str, ...]:
    return tuple(dict.fromkeys(edge.targets))


def _shown(edges: Sequence[EdgeDefinition], values: Mapping[str, Any]) -> str:
    names = {name for edge in edges for name in compile_condition(edge.condition).variables}
    parts = []
    for name in sorted(names):
        value = repr(values[name]) if name in values else "missing"
        parts.append(f"{name} = {value[:_MAX_SHOWN]}")
    return ", ".join(parts) or "none"
