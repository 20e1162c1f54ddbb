"""Values of databases as JSON: exact, or told as a text."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.ranking.similarity import distance_to_similarity
from rag.stages.sql.json_safe import column_names, json_safe


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**70, 2**70),
        (1.5, 1.5),
        ("水", "水"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Decimal("12.50"), 12.5),
        (Decimal("3"), 3),
        (Decimal("1E+3"), 1000.0),
        (Decimal("0.1234567890123456789"), "0.1234567890123456789"),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "NaN"),
        (Decimal("1E+400"), "1E+400"),
        (date(2024, 2, 3), "2024-02-03"),
        (datetime(2024, 2, 3, 4, 5, tzinfo=UTC), "2024-02-03T04:05:00+00:00"),
        (time(4, 5), "04:05:00"),
        (timedelta(days=1, hours=2), "1 day, 2:00:00"),
        (b"\x00\xff", "AP8="),
        (memoryview(b"ab"), "YWI="),
        (bytearray(b"ab"), "YWI="),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (ip_address("::1"), "::1"),
        ([1, (2, None)], [1, [2, None]]),
        ({1: {"a": Decimal("0.5")}}, {"1": {"a": 0.5}}),
        ("a\0b\ud800", "a\ufffdb\ufffd"),
        (Level.HIGH, 3),
        (frozenset([1]), [1]),
    ],
)
def test_a_value_is_exact_or_a_text(value: Any, safe: Any) -> None:
    assert json_safe(value) == safe
    assert type(json_safe(value)) is type(safe)


def test_a_number_of_more_digits_than_python_writes_becomes_a_text() -> None:
    assert json_safe(Decimal("7" * 4300)) == int("7" * 4300)
    assert json_safe(Decimal("7" * 4301)) == "7" * 4301
    assert json_safe(-(10**5000)) == f"-1{'0' * 5000}"


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals().filter(lambda number: not number.is_snan())
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.complex_numbers()
)


_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_LEAVES, inner), max_leaves=20
)


@given(_VALUES)
def test_whatever_comes_can_be_written_and_read_again(value: Any) -> None:
    safe = json_safe(value)
    raw = json.dumps(safe, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(raw) == safe
    assert b"\\u0000" not in raw
    assert json_safe(safe) == safe


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_figure_is_rounded(value: Decimal) -> None:
    safe = json_safe(value)
    assert Decimal(repr(safe) if isinstance(safe, float) else safe) == value


def test_a_list_within_itself_ends() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "[" in json.dumps(json_safe(endless))


@given(st.lists(st.sampled_from(["id", "id_2", "id_3", "n"]), max_size=8))
def test_each_column_has_a_name_of_its_own(names: list[str]) -> None:
    chosen = column_names(names)
    assert len(set(chosen)) == len(names)
    for place, name in enumerate(names):
        assert chosen[place] == name or name in names[:place]


@pytest.mark.parametrize(
    ("distance", "measure", "score"),
    [(0.25, "cosine", 0.75), (0.25, "ip", 0.75), (0.5, "l2", 0.75), (1.0, "other", 0.5)],
)
def test_a_distance_is_a_score(distance: float, measure: str, score: float) -> None:
    assert distance_to_similarity(distance, measure) == score
