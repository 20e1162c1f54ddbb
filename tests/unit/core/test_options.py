"""Options: the schema of a dataclass, what is refused and how it is named, what comes out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.options import find_option_errors, option, read_options, schema_of


@dataclass(frozen=True)
class Everything:
    url: str = option(help="Where to ask.")
    method: Literal["GET", "POST"] = option("GET", help="How.")
    top_k: int = option(5, help="How many.", minimum=1, maximum=50)
    share: float = option(0.5, help="A part.", minimum=0, maximum=1)
    is_strict: bool = option(False, help="Whether.")
    key: str = option("", help="The key.", is_secret=True)
    names: list[str] = option(["a"], help="Which.")
    counts: list[int] = option([], help="How often.")
    headers: dict[str, str] = option({}, help="Said along.")
    body: dict[str, Any] = option({}, help="Sent along.")
    note: str | None = option(None, help="If any.")
    order: Literal["up", "down"] | None = option(None, help="If any.")
    limit: int | None = option(None, help="If any.", minimum=1)


def read(**values: Any) -> Everything:
    return read_options(Everything, {"url": "x", **values}, of="api")


def refusal(**values: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read(**values)
    return str(caught.value)


def test_the_schema_names_types_limits_choices_defaults_and_secrets() -> None:
    schema = schema_of(Everything)
    assert schema["required"] == ["url"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "url": {"type": "string", "description": "Where to ask."},
        "method": {
            "type": "string",
            "enum": ["GET", "POST"],
            "description": "How.",
            "default": "GET",
        },
        "top_k": {
            "type": "integer",
            "description": "How many.",
            "minimum": 1,
            "maximum": 50,
            "default": 5,
        },
        "share": {
            "type": "number",
            "description": "A part.",
            "minimum": 0,
            "maximum": 1,
            "default": 0.5,
        },
        "is_strict": {"type": "boolean", "description": "Whether.", "default": False},
        "key": {"type": "string", "description": "The key.", "x-secret": True, "default": ""},
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Which.",
            "default": ["a"],
        },
        "counts": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "How often.",
            "default": [],
        },
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Said along.",
            "default": {},
        },
        "body": {"type": "object", "description": "Sent along.", "default": {}},
        "note": {"type": ["string", "null"], "description": "If any.", "default": None},
        "order": {
            "type": ["string", "null"],
            "enum": ["up", "down", None],
            "description": "If any.",
            "default": None,
        },
        "limit": {
            "type": ["integer", "null"],
            "description": "If any.",
            "minimum": 1,
            "default": None,
        },
    }
    assert json.loads(json.dumps(schema)) == schema


def test_nothing_but_what_is_required_gives_the_defaults() -> None:
    assert read() == Everything(url="x")
    assert read().names == ["a"]


def test_defaults_are_not_shared() -> None:
    read().names.append("b")
    assert read().names == ["a"]


def test_values_arrive_as_they_were_given() -> None:
    given_values = {
        "method": "POST",
        "top_k": 50,
        "share": 1,
        "is_strict": True,
        "names": [],
        "counts": [1],
        "headers": {"A": "b"},
        "body": {"deep": [1, {"x": None}]},
        "note": "",
        "order": "up",
    }
    found = read(**given_values)
    assert {name: getattr(found, name) for name in given_values} == given_values
    assert read(note=None, order=None, limit=None).limit is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"top_k": 0}, "“top_k” of api is 0. Allowed: 1 to 50."),
        ({"top_k": 51}, "“top_k” of api is 51. Allowed: 1 to 50."),
        ({"top_k": "5"}, "“top_k” of api is '5'. It must be of type integer."),
        ({"top_k": 5.0}, "“top_k” of api is 5.0. It must be of type integer."),
        ({"top_k": True}, "“top_k” of api is True. It must be of type integer."),
        ({"top_k": None}, "“top_k” of api is None. It must be of type integer."),
        ({"share": 1.01}, "“share” of api is 1.01. Allowed: 0 to 1."),
        ({"share": math.nan}, "“share” of api is nan. Allowed: 0 to 1."),
        ({"limit": math.inf}, "“limit” of api is inf. It must be of type integer or null."),
        ({"limit": 0}, "“limit” of api is 0. Allowed: 1 to …."),
        ({"is_strict": 1}, "“is_strict” of api is 1. It must be of type boolean."),
        ({"names": "a"}, "“names” of api is 'a'. It must be of type array."),
        ({"names": ["a", 1]}, "“names” of api holds something else than string."),
        ({"counts": [True]}, "“counts” of api holds something else than integer."),
        ({"headers": {"A": 1}}, "“headers” of api holds something else than string."),
        ({"headers": {1: "a"}}, "“headers” of api is {1: 'a'}. It must be of type object."),
        ({"body": ["a"]}, "“body” of api is ['a']. It must be of type object."),
        ({"url": 7}, "“url” of api is 7. It must be of type string."),
        ({"method": "PUT"}, "Unknown option value “api.method: PUT”. Known: GET, POST."),
        ({"order": "left"}, "Unknown option value “api.order: left”. Known: down, up."),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(values: dict[str, Any], said: str) -> None:
    assert said in refusal(**values)


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown option “api.topk”. Known: body, .*, url."):
        read(topk=1)


def test_a_missing_option_is_named() -> None:
    with pytest.raises(InvalidInputError, match="api needs the option “url”"):
        read_options(Everything, {}, of="api")


def test_what_stands_where_a_secret_belongs_is_not_shown() -> None:
    assert refusal(key=["hunter2"]) == ("The option “key” of api is …. It must be of type string.")


def test_a_long_wrong_value_is_shown_in_short() -> None:
    assert len(refusal(top_k="x" * 10_000)) < 120


def test_all_faults_are_found_at_once_by_name() -> None:
    schema = schema_of(Everything)
    faults = find_option_errors(schema, {"top_k": 0, "nope": 1, "method": "PUT"}, of="api")
    assert set(faults) == {"nope", "url", "top_k", "method"}
    assert all(name in str(fault) for name, fault in faults.items())
    assert find_option_errors(schema, {"url": "x"}, of="api") == {}


def test_a_stored_schema_judges_like_a_fresh_one() -> None:
    stored = json.loads(json.dumps(schema_of(Everything)))
    assert set(find_option_errors(stored, {"top_k": 99, "url": "x"}, of="api")) == {"top_k"}


def test_what_the_author_refuses_is_an_error_for_people() -> None:
    @dataclass(frozen=True)
    class Range:
        low: int = option(0, help="From.")
        high: int = option(9, help="To.")

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    with pytest.raises(InvalidInputError, match="do not go together: low is above high"):
        read_options(Range, {"low": 10}, of="range")


@pytest.mark.parametrize(
    "hint",
    [
        bytes,
        tuple[int, ...],
        list,
        dict,
        list[dict[str, Any]],
        int | str,
        Literal[1],
        set[str],
        dict[int, str],
    ],
)
def test_a_type_without_a_form_is_the_authors_mistake(hint: Any) -> None:
    made = type("Options", (), {"__annotations__": {"x": hint}, "x": None})
    with pytest.raises(TypeError, match="an option cannot have the type"):
        schema_of(dataclass(made))


def test_an_annotation_that_cannot_be_resolved_is_the_authors_mistake() -> None:
    made = type("Options", (), {"__annotations__": {"x": "NoSuchType"}, "x": 1})
    with pytest.raises(TypeError, match="NoSuchType"):
        schema_of(dataclass(made))
    with pytest.raises(TypeError):
        schema_of(int)


def test_a_plain_field_needs_no_option() -> None:
    @dataclass
    class Plain:
        top_k: int = 3
        names: list[str] = field(default_factory=list)

    assert schema_of(Plain)["properties"]["top_k"] == {
        "type": "integer",
        "description": "",
        "default": 3,
    }
    assert read_options(Plain, {"names": ["x"]}, of="plain") == Plain(names=["x"])


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
    | st.fixed_dictionaries(
        {},
        optional={
            "top_k": st.integers(-5, 60),
            "share": st.floats(),
            "url": st.text(),
            "note": st.none() | st.text(),
            "names": st.lists(st.text() | st.integers()),
            "method": st.sampled_from(["GET", "PUT"]),
        },
    )
)
def test_any_values_give_options_or_a_refusal(values: dict[str, Any]) -> None:
    faults = find_option_errors(schema_of(Everything), values, of="api")
    assert all(str(fault) for fault in faults.values())
    if faults:
        with pytest.raises(InvalidInputError):
            read_options(Everything, values, of="api")
    else:
        found = read_options(Everything, values, of="api")
        assert 1 <= found.top_k <= 50
        assert 0 <= found.share <= 1
        assert found.method in ("GET", "POST")


def test_a_number_that_no_float_holds_is_out_of_range() -> None:
    @dataclass(frozen=True)
    class Options:
        least: int = option(1, help="At least so many.", minimum=1)
        share: float = option(0.5, help="A share.")

    for name in ("least", "share"):
        with pytest.raises(InvalidInputError, match=name):
            read_options(Options, {name: 10**400}, of="x")
    assert read_options(Options, {"least": 10**30}, of="x").least == 10**30
