"""Conditions: CEL by comparison; what is missing or mixed up is false and reported, never raised."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.flows.definition.conditions import MAX_LENGTH, ConditionResult, compile_condition
from rag.core.errors import InvalidInputError, RAGError, UnknownNameError

STATE: dict[str, Any] = {
    "analysis_result": "sufficient",
    "confidence": 0.85,
    "data_quality": "low",
    "risk_level": "low",
    "n": 3,
    "is_new": True,
    "tags": ["a", "b"],
    "more": {"level": 2, "名": "甲"},
    "nothing": None,
    "结果": "充足",
    "置信度": 1,
    "a && b": 1,
    "text": "a && b || c",
}


def ask(text: str, **values: Any) -> ConditionResult:
    return compile_condition(text).evaluate({**STATE, **values})


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("always", True),
        ('analysis_result == "sufficient" && confidence >= 0.8', True),
        ('analysis_result == "insufficient" || confidence < 0.6', False),
        ('analysis_result == "need_verification" && data_quality == "low"', False),
        ('(analysis_result == "x" && data_quality == "low") || risk_level == "low"', True),
        ('analysis_result == "x" && (data_quality == "low" || risk_level == "low")', False),
        ('analysis_result != "x"', True),
        ("!is_new", False),
        ("!(n == 4)", True),
        ("!!is_new", True),
        ("is_new", True),
        ("confidence >= 0.85 && n > 2 && n <= 3", True),
        ('"a" in tags', True),
        ('analysis_result in ["sufficient", "enough"]', True),
        ("more.level == 2", True),
        ('more["level"] == 2', True),
        ("more.名 == '甲'", True),
        ('结果 == "充足" && 置信度 >= 0.8', True),
        ("nothing == null", True),
        ("size(tags) == 2", True),
        ('text.contains("&&")', True),
        ('text == "a && b || c"', True),
        ("n == 3.0", True),
        ("置信度 > 0.5", True),
        ("is_new ? n == 3 && confidence > 0.8 : n == 4", True),
        ("n + 1 == 4", True),
        ("has(more.level) && more.level == 2", True),
        ("has(more.gone) && more.gone == 2", False),
    ],
)
def test_a_condition_holds_or_not(text: str, is_true: bool) -> None:
    assert ask(text) == ConditionResult(is_true)


@pytest.mark.parametrize(
    "text", ['gone == "x"', 'gone != "x"', "gone > 1", "gone", "gone.a == 1", "gone in tags"]
)
def test_a_missing_variable_makes_its_comparison_false_and_is_named(text: str) -> None:
    assert ask(text) == ConditionResult(False, ("gone",))


def test_other_comparisons_are_not_touched_by_a_missing_one() -> None:
    assert ask("gone > 1 || n == 3") == ConditionResult(True, ("gone",))
    assert ask("!(gone > 1)") == ConditionResult(True, ("gone",))
    assert ask("n == 3 || gone > 1") == ConditionResult(True)


@pytest.mark.parametrize(
    "text",
    [
        'confidence >= "high"',
        "analysis_result > 1",
        "more.gone == 1",
        "tags[7] == 1",
        "n / 0 == 1",
        "nothing > 1",
        "n.__class__ == 1",
        "n",
        "n + 1",
        'analysis_result.matches("(")',
    ],
)
def test_what_cannot_be_compared_is_false_and_reported(text: str) -> None:
    verdict = ask(text)
    assert (verdict.is_true, verdict.missing) == (False, ())
    assert len(verdict.mistakes) == 1 and verdict.mistakes[0].startswith(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a ==", "Syntax error"),
        ("a = 1", "character 3"),
        ("a &&", "beside &&"),
        ("|| a", "beside &&"),
        ("(a", "character 1"),
        ("a)", "character 2"),
        ("[a)", "character 3"),
        ("a; b", "character 2"),
        ('"abc', "character 1"),
        ("a == 'x", "character 6"),
        ("a == 1 b", "Syntax error"),
        ("$x == 1", "character 1"),
        ("()", "cannot be read"),
        ("(" * 31 + "a" + ")" * 31, "30 deep"),
        ("a" * (MAX_LENGTH + 1), "At most 2000"),
        ("tags.map(t, t)", "goes through a list"),
        ("tags.all(t, t == 1)", "goes through a list"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as raised:
        compile_condition(text)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("text", ["eval('1')", "a.b()", "__import__('os')", "a.format('x')"])
def test_unknown_functions_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(UnknownNameError, match="contains, double, endsWith"):
        compile_condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "-" * 1990 + "1 == 1",
        "a" + ".a" * 900,
        "a?a:" * 480 + "a",
        "1+" * 950 + "1 == 2",
        "a" + "[0]" * 600,
        "!" * 1900 + "a",
        "a == a && " * 180 + "a",
        '"' + "x" * 1990 + '" == a',
        "1" * 1900 + " == a",
        "((" * 15 + "a == 1" + "))" * 15,
    ],
    ids=str,
)
def test_hostile_conditions_end_in_a_verdict_or_an_error(text: str) -> None:
    try:
        verdict = compile_condition(text).evaluate({"a": True})
    except RAGError:
        return
    assert isinstance(verdict.is_true, bool)


def test_variables_are_what_the_condition_asks_for() -> None:
    text = '结果 == "充足" && more.level > size(tags) || "x" in names && true'
    assert compile_condition(text).variables == ("more", "names", "tags", "结果")
    assert compile_condition("always").variables == ()


RESERVED = [
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
]


@pytest.mark.parametrize("name", [*RESERVED, "type", "duration", "list", "size", "string"])
def test_words_of_the_language_may_be_names_of_variables(name: str) -> None:
    condition = compile_condition(f'{name} == "x" && more.{name} == 1')
    assert condition.variables == tuple(sorted(("more", name)))
    assert condition.evaluate({name: "x", "more": {name: 1}}) == ConditionResult(True)
    assert condition.evaluate({"more": {name: 1}}) == ConditionResult(False, (name,))


def test_a_field_that_is_not_there_is_told_in_words() -> None:
    assert ask("more.gone == 1").mistakes == ("more.gone == 1: No such key",)


def test_one_condition_serves_many_threads() -> None:
    condition = compile_condition("n == 3 && confidence >= 0.5")
    with ThreadPoolExecutor(8) as pool:
        assert set(
            pool.map(lambda n: condition.evaluate({"n": n % 2 * 3, "confidence": 1}), range(400))
        ) == {ConditionResult(False), ConditionResult(True)}


NAMES = st.sampled_from(["a", "b", "置信度", "gone"])
LEAVES = st.builds(
    lambda name, operator, number: (name, operator, number),
    NAMES,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.integers(0, 3),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=3))
        | st.tuples(st.just("!"), inner)
    ),
    max_leaves=12,
)


def write(tree: Any) -> str:
    if tree[0] == "!":
        return f"!({write(tree[1])})"
    if isinstance(tree[1], list):
        return "(" + f" {tree[0]} ".join(map(write, tree[1])) + ")"
    return " ".join(map(str, tree))


def truth(tree: Any, values: dict[str, int]) -> bool:
    if tree[0] == "!":
        return not truth(tree[1], values)
    if isinstance(tree[1], list):
        answers = [truth(part, values) for part in tree[1]]
        return all(answers) if tree[0] == "&&" else any(answers)
    name, operator, number = tree
    if name not in values:
        return False
    value = values[name]
    return {
        "==": value == number,
        "!=": value != number,
        "<": value < number,
        "<=": value <= number,
        ">": value > number,
        ">=": value >= number,
    }[operator]


@given(tree=TREES, a=st.integers(0, 3), b=st.integers(0, 3), other=st.integers(0, 3))
def test_any_logic_is_worth_what_its_parts_are(tree: Any, a: int, b: int, other: int) -> None:
    values = {"a": a, "b": b, "置信度": other}
    verdict = compile_condition(write(tree)).evaluate(values)
    assert verdict.is_true is truth(tree, values)
    assert verdict.mistakes == ()


@given(text=st.text(alphabet="ab1.&|!=<>()[]\"' +-?:,中", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        condition = compile_condition(text)
    except RAGError:
        return
    assert isinstance(condition.evaluate({"a": 1, "b": "x", "中": [1]}).is_true, bool)


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ('a == 1 and b == "x"', "&&"),
        ("a == 1 or b == 2", "||"),
        ("not a", "!"),
        ("is_new == True", "true"),
        ("a != None", "null"),
    ],
)
def test_words_of_python_name_their_mend(text: str, mend: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        compile_condition(text)
    assert str(raised.value).endswith(f"Write {mend}.")
    compile_condition('a == "x and y, not None" && more.None == 1')
