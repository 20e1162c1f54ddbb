"""Templates: by id, then label, then field; values are data and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.prompting.templates import resolve_template

CONTEXT: dict[str, Any] = {
    "input_1": {
        "user_input": "年假几天？",
        "formData": {"destination": "成都", "days": 3},
        "files": [{"name": "a.pdf", "url": "https://x/a.pdf"}, {"name": "b.pdf", "url": ""}],
        "is_new": True,
        "nothing": None,
    },
    "llm-2": {"output": "先问政策", "user_input": "second"},
    "v1.2": {"x": "dotted", "a.b": "field with a dot"},
    "_meta": {"nodeLabels": {"input_1": "用户输入", "llm-2": "LLM", "v1.2": "input_1"}},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{input_1.user_input}}", "年假几天？"),
        ("{{用户输入.user_input}}", "年假几天？"),
        ("{{ LLM.output }}", "先问政策"),
        ("{{output}}", "先问政策"),
        ("{{user_input}}", "年假几天？"),
        ("{{用户输入.formData.destination}}，{{formData.days}}天", "成都，3天"),
        ("{{用户输入.files[0].url}}", "https://x/a.pdf"),
        ("{{files[1].name}}", "b.pdf"),
        ("{{v1.2.x}}", "dotted"),
        ("{{v1.2.a.b}}", "field with a dot"),
        ("{{用户输入.is_new}}", "true"),
        ("{{用户输入.nothing}}", ""),
        ("{{formData}}", '{"destination": "成都", "days": 3}'),
        ("no placeholder, { one } brace", "no placeholder, { one } brace"),
    ],
)
def test_a_path_gives_its_text(template: str, text: str) -> None:
    found = resolve_template(template, CONTEXT)
    assert (found.text, found.missing) == (text, ())


def test_an_id_comes_before_a_label_of_that_name() -> None:
    assert resolve_template("{{input_1.user_input}}", CONTEXT).text == "年假几天？"


def test_one_placeholder_alone_gives_the_thing_itself() -> None:
    assert resolve_template(" {{用户输入.files}} ", CONTEXT).value == CONTEXT["input_1"]["files"]
    assert resolve_template("{{用户输入.formData.days}}", CONTEXT).value == 3
    assert resolve_template("x{{用户输入.formData.days}}", CONTEXT).value == "x3"
    assert resolve_template("{{input_1}}", CONTEXT).value == CONTEXT["input_1"]


@pytest.mark.parametrize(
    "path",
    [
        "nobody.output",
        "input_1.nothing.more",
        "files[2]",
        "files[-1]",
        "files.0",
        "user_input[0]",
        "input_1.__class__",
        "_meta.nodeLabels",
        "_meta",
        "files[0]url",
        "input_1.",
        ".user_input",
        "files[99999999999]",
    ],
)
def test_what_is_not_there_is_empty_and_named(path: str) -> None:
    found = resolve_template(f"a{{{{{path}}}}}b", CONTEXT)
    assert (found.text, found.missing) == ("ab", (path,))
    assert resolve_template(f"{{{{{path}}}}}", CONTEXT).value is None


def test_missing_names_are_listed_once_in_order() -> None:
    found = resolve_template("{{b}}{{a}}{{b}}{{user_input}}", CONTEXT)
    assert found.missing == ("b", "a")


def test_labels_of_a_wrong_shape_do_no_harm() -> None:
    for meta in (
        None,
        [],
        {"nodeLabels": None},
        {"nodeLabels": ["x"]},
        {"nodeLabels": {"gone": "LLM"}},
    ):
        assert resolve_template("{{LLM.output}}", {"_meta": meta}).missing == ("LLM.output",)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=st.text())
def test_a_value_is_never_filled_again(value: str) -> None:
    context = {"n": {"a": value + "{{n.b}}", "b": "secret"}}
    assert resolve_template("{{n.a}}", context).text == value + "{{n.b}}"


@given(template=st.text(alphabet="{}n.ab[0] 中", max_size=40), output=VALUES)
def test_any_template_over_any_values_is_answered(template: str, output: Any) -> None:
    found = resolve_template(template, {"n": output, "中": {"a": output}})
    assert isinstance(found.text, str)


@given(
    label=st.text(min_size=1, max_size=10).filter(
        lambda t: not set(t) & set("{}") and t.strip() == t
    ),
    field=st.text(min_size=1, max_size=10).filter(
        lambda t: not set(t) & set("{}") and t.strip() == t
    ),
    value=VALUES,
)
def test_any_label_and_field_reach_their_value(label: str, field: str, value: Any) -> None:
    context = {"id-7f3": {field: value}, "_meta": {"nodeLabels": {"id-7f3": label}}}
    if label in ("_meta", "id-7f3"):
        return
    found = resolve_template(f"{{{{{label}.{field}}}}}", context)
    assert found.value == value
    expected = (
        ""
        if value is None
        else value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False)
    )
    assert found.text == expected
