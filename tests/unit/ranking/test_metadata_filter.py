"""Filters over metadata: comparisons, their binding, lists, what is missing, what is unreadable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError
from rag.stages.ranking.metadata_filter import metadata_filter_of, parse_metadata_filter
from tests.fakes.gemini_filter import FilterMistake, read_filter

HELD = {"lang": "zh", "year": 2025, "tags": ["a", "b"], "is_public": True}


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ('lang = "zh"', True),
        ("lang = zh", True),
        ("lang != 'zh'", False),
        ("year > 2020", True),
        ("year >= 2025 AND year <= 2025", True),
        ("year < 2025", False),
        ('tags = "b"', True),
        ('tags != "b"', False),
        ('tags = "c"', False),
        ('lang = "en" OR year = 2025', True),
        ('lang = "en" AND year = 1 OR lang = "zh"', False),
        ('(lang = "en" AND year = 1) OR lang = "zh"', True),
        ('NOT lang = "en"', True),
        ('NOT NOT lang = "en"', False),
        ("missing = 1", False),
        ("missing != 1", False),
        ("NOT missing = 1", True),
        ('year = "2025"', False),
        ("lang > 5", False),
        ('lang = "z\\h"', True),
        ("is_public = true", True),
        ("", None),
    ],
)
def test_a_filter_decides(text: str, passes: bool | None) -> None:
    if passes is None:
        with pytest.raises(InvalidInputError):
            parse_metadata_filter(text)
    else:
        assert parse_metadata_filter(text)(HELD) is passes


@pytest.mark.parametrize(
    "text",
    [
        "lang",
        "lang =",
        "= 5",
        "(lang = 1",
        "lang = 1)",
        "lang = 1 year = 2",
        "lang ~ 1",
        'a = "',
        "AND",
        "lang = 1 AND",
        "(" * 60 + "a = 1" + ")" * 60,
        "a = 1 OR " * 600 + "b = 2",
        "a = =",
    ],
)
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        parse_metadata_filter(text)


WORDS = st.sampled_from(
    [
        "lang",
        "year",
        "=",
        "!=",
        "<",
        ">=",
        '"zh"',
        "2020",
        "AND",
        "OR",
        "NOT",
        "(",
        ")",
        "tags",
        "'a'",
    ]
)


@given(st.lists(WORDS, max_size=12))
def test_it_judges_as_the_faked_gemini_does(words: list[str]) -> None:
    text = " ".join(words)
    held: dict[str, Any] = {"lang": "zh", "year": 2025.0, "tags": ["a", "b"]}
    try:
        expected = read_filter(text)(held) if text else None
    except FilterMistake:
        expected = None
    try:
        found = parse_metadata_filter(text)(held)
    except InvalidInputError:
        found = None
    if expected is None or found is None:
        # The fake takes odd words for keys; ours is stricter, never laxer.
        assert found is None
    else:
        assert found == expected


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_values_become_a_filter_that_they_pass(values: dict[str, Any]) -> None:
    if any(name in ("AND", "OR", "NOT") for name in values) or len(str(values)) > 2000:
        return
    text = metadata_filter_of(values)
    if values:
        assert parse_metadata_filter(text)(values)
        changed = {name: f"{value}x" for name, value in values.items()}
        assert not parse_metadata_filter(text)(changed)
    else:
        assert text == ""


@pytest.mark.parametrize("held", [[True], [1, "a"], ["true"], [None], []])
@pytest.mark.parametrize("wanted", ["true", "1", "a"])
def test_of_a_list_either_equal_or_unequal_holds(held: list[Any], wanted: str) -> None:
    equal, unequal = (parse_metadata_filter(f"tags {sign} {wanted}") for sign in ("=", "!="))
    assert equal({"tags": held}) is not unequal({"tags": held})


@pytest.mark.parametrize(
    "value", [None, [1], {"a": 1}, True, float("nan"), float("inf"), float("-inf")]
)
def test_a_value_that_no_filter_can_say_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be filtered"):
        metadata_filter_of({"key": value})
