"""Forms made from options: what is shown, what comes out, what is refused beside its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from django import forms
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st
from unfold import widgets

from rag.admin.ui.options_form import OptionsForm, options_form
from rag.core.options import find_option_errors, option, read_options, schema_of


@dataclass(frozen=True)
class Search:
    url: str = option(help="Where to ask.")
    schema: str = option("public", help="Files")
    method: Literal["GET", "POST"] = option("POST", help="How.")
    top_k: int = option(5, help="How many.", minimum=1, maximum=50)
    share: float = option(0.5, help="A part.", minimum=0, maximum=1)
    is_strict: bool = option(True, help="Whether.")
    key: str = option("", help="The key.", is_secret=True)
    names: list[str] = option(["a", "b"], help="Which.")
    counts: list[int] = option([], help="How often.")
    headers: dict[str, str] = option({"A": "1"}, help="Said along.")
    limit: int | None = option(None, help="If any.", minimum=1)
    note: str | None = option(None, help="If any.")
    order: Literal["up", "down"] | None = option(None, help="If any.")
    is_new: bool | None = option(None, help="If known.")


SCHEMA = schema_of(Search)
SHOWN = {
    "url": "https://example.org",
    "schema": "public",
    "method": "POST",
    "top_k": "5",
    "share": "0.5",
    "is_strict": "on",
    "key": "",
    "names": "a\nb",
    "counts": "",
    "headers": '{"A": "1"}',
    "limit": "",
    "note": "",
    "order": "",
    "is_new": "unknown",
}


@pytest.fixture(autouse=True)
def _secrets(settings: Any) -> None:
    settings.RAG = {**settings.RAG, "SECRETS": {"SHOP_KEY": "hunter2", "BARN_KEY": "hunter3"}}


def form(**changed: Any) -> OptionsForm:
    return options_form(SCHEMA)({**SHOWN, **changed})


def options(**changed: Any) -> dict[str, Any]:
    made = form(**changed)
    assert made.is_valid(), made.errors
    found = made.options()
    assert read_options(Search, found, of="search")
    return found


def refusal(**changed: Any) -> dict[str, list[str]]:
    made = form(**changed)
    assert not made.is_valid()
    return {name: list(errors) for name, errors in made.errors.items()}


def choices(made: OptionsForm, name: str) -> list[str]:
    field = made.fields[name]
    assert isinstance(field, forms.ChoiceField)
    return [value for value, _ in field.choices]  # type: ignore[misc]


def test_each_option_has_a_fitting_field() -> None:
    made = options_form(SCHEMA)()
    assert list(made.fields) == list(SCHEMA["properties"])
    kinds = {name: type(field.widget) for name, field in made.fields.items()}
    assert kinds["url"] is widgets.UnfoldAdminExpandableTextareaWidget
    assert kinds["method"] is kinds["key"] is kinds["order"] is widgets.UnfoldAdminSelectWidget
    assert kinds["top_k"] is kinds["share"] is widgets.UnfoldAdminIntegerFieldWidget
    assert kinds["is_strict"] is widgets.UnfoldBooleanSwitchWidget
    assert kinds["is_new"] is widgets.UnfoldAdminNullBooleanSelectWidget
    assert kinds["names"] is kinds["headers"] is widgets.UnfoldAdminTextareaWidget
    assert [name for name, field in made.fields.items() if field.required] == ["url", "method"]


def test_it_shows_help_limits_choices_and_defaults() -> None:
    made = options_form(SCHEMA)()
    shown = made.as_p()
    assert made.fields["url"].help_text == "Where to ask."
    assert 'min="1"' in shown and 'max="50"' in shown and 'step="any"' in shown
    assert '<option value="POST" selected>' in shown
    assert "a\nb</textarea>" in shown
    assert "{&quot;A&quot;: &quot;1&quot;}</textarea>" in shown
    assert choices(made, "method") == ["GET", "POST"]
    assert choices(made, "order") == ["", "up", "down"]


def test_labels_and_help_are_in_the_readers_language() -> None:
    made = options_form(SCHEMA)()
    with translation.override("zh-hans"):
        assert str(made.fields["schema"].help_text) == "文件"
    assert str(made.fields["schema"].help_text) == "Files"
    assert str(made.fields["top_k"].label) == "Top k"


def test_secrets_are_chosen_by_name_and_never_shown() -> None:
    made = options_form(SCHEMA)()
    assert choices(made, "key") == ["", "BARN_KEY", "SHOP_KEY"]
    assert "hunter" not in made.as_p()
    assert options(key="SHOP_KEY")["key"] == "SHOP_KEY"
    assert refusal(key="hunter2") == {
        "key": ["Select a valid choice. hunter2 is not one of the available choices."]
    }


def test_a_secret_that_is_gone_stays_chosen_and_is_marked() -> None:
    made = options_form(SCHEMA)(initial={"key": "OLD_KEY"})
    assert '<option value="OLD_KEY" selected>OLD_KEY (does not exist)</option>' in made.as_p()
    saved = options_form(SCHEMA)({**SHOWN, "key": "OLD_KEY"}, initial={"key": "OLD_KEY"})
    assert saved.is_valid()
    assert saved.options()["key"] == "OLD_KEY"
    assert choices(options_form(SCHEMA)(), "key") == ["", "BARN_KEY", "SHOP_KEY"]


def test_what_is_shown_comes_back_as_the_defaults() -> None:
    assert read_options(Search, options(), of="search") == Search(url="https://example.org")


def test_input_becomes_typed_options() -> None:
    found = options(
        top_k="7",
        share="0.25",
        is_strict="",
        names="x\r\n\r\n  y z \r\n",
        counts="1\n-2",
        headers='{"键": "值"}',
        limit="3",
        note=" kept ",
        order="up",
        is_new="true",
        method="GET",
        url="SELECT 1\r\nFROM t ",
    )
    assert found == {
        "url": "SELECT 1\nFROM t ",
        "schema": "public",
        "method": "GET",
        "top_k": 7,
        "share": 0.25,
        "is_strict": False,
        "key": "",
        "names": ["x", "y z"],
        "counts": [1, -2],
        "headers": {"键": "值"},
        "limit": 3,
        "note": " kept ",
        "order": "up",
        "is_new": True,
    }


def test_what_is_left_empty_is_none_or_the_default() -> None:
    found = options(top_k="", share="", headers="", names="")
    assert not {"top_k", "share", "headers"} & set(found)
    assert found["names"] == []
    assert [found[name] for name in ("limit", "note", "order", "is_new")] == [None] * 4


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"url": ""}, "required"),
        ({"top_k": "0"}, "greater than or equal to 1"),
        ({"top_k": "51"}, "less than or equal to 50"),
        ({"top_k": "2.5"}, "whole number"),
        ({"share": "nan"}, "Enter a number"),
        ({"share": "1.5"}, "less than or equal to 1"),
        ({"limit": "0"}, "greater than or equal to 1"),
        ({"method": "PUT"}, "Select a valid choice"),
        ({"method": ""}, "required"),
        ({"counts": "1\ntwo"}, "“two” is not of the type integer."),
        ({"headers": "[1]"}, "Write a JSON object"),
        ({"headers": "{"}, "valid JSON"),
        ({"headers": '{"A": 1}'}, "“headers” of the plugin holds something else than string"),
        ({"note": "a\x00b"}, "Null characters"),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field(changed: dict[str, str], said: str) -> None:
    errors = refusal(**changed)
    assert list(errors) == list(changed)
    (message,) = errors[next(iter(changed))]
    assert said in message


def test_stored_options_come_back_unchanged() -> None:
    stored = {
        "url": "x",
        "schema": "s",
        "method": "GET",
        "top_k": 9,
        "share": 0.0,
        "is_strict": False,
        "key": "BARN_KEY",
        "names": [],
        "counts": [3],
        "headers": {},
        "limit": 4,
        "note": "n",
        "order": "down",
        "is_new": False,
    }
    shown = options_form(SCHEMA)(initial=stored)
    sent = {name: shown[name].value() for name in shown.fields}
    assert options(**sent) == stored


@given(st.fixed_dictionaries({name: st.text(max_size=12) for name in SHOWN}))
def test_no_input_gives_options_that_the_schema_refuses(sent: dict[str, str]) -> None:
    made = options_form(SCHEMA)(sent)
    if made.is_valid():
        assert find_option_errors(SCHEMA, made.options(), of="search") == {}
    else:
        assert all(errors for errors in made.errors.values())


def test_required_lists_objects_and_secrets_must_be_given() -> None:
    @dataclass
    class Strict:
        names: list[str] = option(help="Which.")
        headers: dict[str, str] = option(help="Said along.")
        key: str = option(help="The key.", is_secret=True)
        is_new: bool = option(help="Whether.")
        order: Literal["up", "down"] = option(help="How.")

    made = options_form(schema_of(Strict))({})
    assert set(made.errors) == {"names", "headers", "key", "order"}
    assert choices(made, "key") == ["", "BARN_KEY", "SHOP_KEY"]
    assert choices(made, "order") == ["", "up", "down"]
    good = {"names": "a", "headers": '{"A": "b"}', "key": "SHOP_KEY", "order": "up"}
    filled = options_form(schema_of(Strict))(good)
    assert filled.is_valid(), filled.errors
    assert read_options(Strict, filled.options(), of="strict") == Strict(
        ["a"], {"A": "b"}, "SHOP_KEY", False, "up"
    )


def test_two_plugins_do_not_share_a_form() -> None:
    @dataclass
    class Other:
        depth: int = option(1, help="How deep.")

    assert list(options_form(schema_of(Other))().fields) == ["depth"]
    assert "depth" not in options_form(SCHEMA)().fields
