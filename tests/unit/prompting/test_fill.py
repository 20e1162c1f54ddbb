"""Placeholders become values and nothing else: no evaluation, no second filling."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError, UnknownNameError
from rag.stages.prompting.templates import fill_placeholders

VALUES = {
    "user_query": "退货 {n} & {{x}}",
    "n": 3,
    "x": 1.5,
    "yes": True,
    "none": None,
    "ids": [1, 2],
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{n}", 3),
        ("{x}", 1.5),
        ("{yes}", True),
        ("{none}", None),
        ("{ids}", [1, 2]),
        ("n={n}", "n=3"),
        ("{n}{n}", "33"),
        ("{yes}!", "true!"),
        ("{user_query}", "退货 {n} & {{x}}"),
        ("q: {user_query}", "q: 退货 {n} & {{x}}"),
        ("{{n}}", "{3}"),
        (7, 7),
        (None, None),
        ({"a": ["{n}", {"{n}": "{x}"}], "b": True}, {"a": [3, {"{n}": 1.5}], "b": True}),
    ],
)
def test_a_placeholder_becomes_its_value(template: Any, filled: Any) -> None:
    result = fill_placeholders(template, VALUES)
    assert result == filled
    assert type(result) is type(filled)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "{}",
        "{ n }",
        "{0}",
        '{"n": 1}',
        "{n:>10}",
        "query { search(text: $q) { id } }",
        "%(n)s",
        "${",
        "{n",
        "n}",
        "{-n}",
        "{a b}",
        "{1n}",
        "\\d{2}",
    ],
)
def test_other_braces_stay(text: str) -> None:
    assert fill_placeholders(text, VALUES) == text


@pytest.mark.parametrize(
    "text",
    [
        "{x.__class__}",
        "{user_query.__class__.__mro__}",
        "{ids[0]}",
        "{n!r}",
        "a {x.real} b",
        "{x .y}",
        "{n!r:>9}",
    ],
)
def test_what_would_reach_into_a_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is no placeholder"):
        fill_placeholders(text, VALUES)
    with pytest.raises(InvalidInputError, match="is no placeholder"):
        fill_placeholders({"deep": [text]}, VALUES)


def test_a_missing_value_is_an_error_that_names_it() -> None:
    for template in ("{token_id}", "id-{token_id}", {"a": "{token_id}"}):
        with pytest.raises(
            UnknownNameError, match=r"placeholder “token_id”\. Known: n, user_query"
        ):
            fill_placeholders(template, {"user_query": "x", "n": 1})


@pytest.mark.parametrize("name", ["none", "ids"])
def test_a_value_without_a_text_has_no_place_inside_one(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"“{name}” has no value.*{{{name}}} stand alone"):
        fill_placeholders(f"a {{{name}}}", VALUES)


def test_names_may_be_of_any_script() -> None:
    assert fill_placeholders("{城市}-{_a1}", {"城市": "北京", "_a1": 2}) == "北京-2"


def test_dates_and_ids_become_texts() -> None:
    values = {
        "d": date(2026, 1, 31),
        "t": datetime(2026, 1, 31, 8),
        "m": Decimal("1.50"),
        "u": UUID(int=1),
    }
    assert fill_placeholders(["{d}", "{t}", "{m}", "u={u}"], values) == [
        "2026-01-31",
        "2026-01-31 08:00:00",
        "1.50",
        "u=00000000-0000-0000-0000-000000000001",
    ]


def test_half_a_character_is_refused() -> None:
    for template in ("{q}", "a{q}"):
        with pytest.raises(InvalidInputError, match="“q” holds half a character"):
            fill_placeholders(template, {"q": "a\ud800"})


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
hostile = st.one_of(
    texts,
    st.sampled_from(
        ["{a}", "{b}", "{{a}}", "{a.__class__}", "{b!r}", "%(a)s", "$a", "\\1", "\\g<0>"]
    ),
)


@given(texts.filter(lambda text: "{" not in text and "}" not in text), hostile, hostile)
def test_values_are_put_in_as_they_are(around: str, a: str, b: str) -> None:
    values = {"a": a, "b": b}
    assert fill_placeholders(around + "{a}" + around + "{b}", values) == around + a + around + b


@given(hostile)
def test_a_value_alone_is_the_value(value: str) -> None:
    assert fill_placeholders({"q": "{a}"}, {"a": value, "b": "never"}) == {"q": value}


@given(hostile, hostile)
def test_an_encoded_value_keeps_to_its_place(a: str, b: str) -> None:
    filled = fill_placeholders(
        "/{a}/{b}", {"a": a, "b": b}, encode=lambda text: quote(text, safe="")
    )
    assert [unquote(part) for part in filled.split("/")] == ["", a, b]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_any_json_value_keeps_its_type(value: Any) -> None:
    filled = fill_placeholders({"filter": ["{v}"], "top": 3}, {"v": value})
    assert json.loads(json.dumps(filled)) == json.loads(json.dumps({"filter": [value], "top": 3}))


@given(texts)
def test_any_template_ends_in_a_value_or_an_error_for_people(template: str) -> None:
    try:
        filled = fill_placeholders(template, {"a": "x"})
    except InvalidInputError:
        return
    assert isinstance(filled, str)
