"""Sealed values open under their own name only; frozen values come back equal."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.analysis import Entity, QueryAnalysis
from rag.core.hits import Hit, Leg
from rag.core.types import SearchResult
from rag.providers.cache.dataclass_json import from_json, to_json
from rag.providers.cache.seal import MAX_VALUE, Seal

SEAL = Seal("secret", "results")


@given(st.binary(max_size=2000), st.binary(max_size=100))
def test_what_is_sealed_opens_again(value: bytes, asked: bytes) -> None:
    name = SEAL.name(asked)
    assert SEAL.open(name, SEAL.close(name, value)) == value


@given(st.binary(max_size=200), st.data())
def test_no_other_bytes_open(value: bytes, data: st.DataObject) -> None:
    name = SEAL.name(b"q")
    sealed = SEAL.close(name, value)
    place = data.draw(st.integers(0, len(sealed) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    turned = sealed[:place] + bytes([sealed[place] ^ bit]) + sealed[place + 1 :]
    assert SEAL.open(name, turned) is None
    assert SEAL.open(name, sealed[:place]) is None
    assert SEAL.open(name, sealed + b"\0") is None


@given(st.binary(max_size=300))
def test_foreign_bytes_do_not_open(value: bytes) -> None:
    assert SEAL.open(SEAL.name(b"q"), value) is None


def test_a_value_opens_under_its_own_name_and_secret_only() -> None:
    name = SEAL.name(b"q")
    sealed = SEAL.close(name, b"value")
    assert SEAL.open(SEAL.name(b"r"), sealed) is None
    assert Seal("other", "results").open(name, sealed) is None
    assert Seal("secret", "vectors").open(name, sealed) is None
    assert Seal("secret", "results").open(name, sealed) == b"value"


def test_names_differ_by_question_installation_and_purpose_and_tell_nothing() -> None:
    names = {
        seal.name(asked)
        for seal in (SEAL, Seal("other", "results"), Seal("secret", "vectors"))
        for asked in (b"", b"pump", b"pump ")
    }
    assert len(names) == 9
    assert all(name.startswith("citable:") and len(name) < 80 for name in names)
    assert not any("pump" in name or "secret" in name for name in names)


def test_a_bomb_does_not_unpack() -> None:
    name = SEAL.name(b"q")
    packed = zlib.compress(bytes(MAX_VALUE + 1), 9)
    assert len(packed) < 10_000
    assert SEAL.open(name, SEAL._mark(name, packed) + packed) is None


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
legs = st.builds(Leg, rank=st.none() | st.integers(1), score=st.none() | st.floats(-9, 99))
hits = st.builds(
    Hit,
    text=st.text(),
    rank=st.integers(1, 200),
    score=st.none() | st.floats(0, 1),
    vector=legs,
    lexical=legs,
    chunk_id=st.none() | st.integers(1),
    page_first=st.none(),
    matched_terms=st.lists(st.text()).map(tuple),
    heading_path=st.lists(st.text()).map(tuple),
    metadata=st.dictionaries(st.text(), plain),
    data=st.none() | st.dictionaries(st.text(), plain),
)
analyses = st.builds(
    QueryAnalysis,
    intent=st.text(),
    keywords=st.lists(st.text()).map(tuple),
    entities=st.lists(st.builds(Entity, type=st.text(), value=st.text())).map(tuple),
)
results = st.builds(
    SearchResult,
    query=st.text(),
    hits=st.lists(hits, max_size=3).map(tuple),
    mode=st.text(),
    top_k=st.integers(1, 200),
    settings_hash=st.text(),
    timings_ms=st.just({"sql": 1.25}),
    routes=st.dictionaries(st.integers(1), st.text()),
    analysis=st.none() | analyses,
)


@given(results)
def test_a_result_comes_back_equal(result: SearchResult) -> None:
    assert from_json(SearchResult, to_json(result)) == result


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x",
        b"[]",
        b"1",
        b'"a"',
        b"null",
        b"{}",
        b'{"hits": 1}',
        b'{"unknown": 1}',
        b"\xff",
        b'{"query":"","hits":[{"text":"","rank":1,"vector":7}],"mode":"","top_k":1,'
        b'"settings_hash":"","routes":{},"timings_ms":{}}',
        b'{"query":"","hits":[],"mode":"","top_k":1,"settings_hash":"","routes":{"x":""},'
        b'"timings_ms":{}}',
    ],
)
def test_what_is_no_result_is_none(raw: bytes) -> None:
    assert from_json(SearchResult, raw) is None


@dataclass(frozen=True)
class Odd:
    """A value that JSON would not give back as it was."""

    names: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Pair:
    """Two different things in a tuple."""

    pair: tuple[int, str] = (1, "")


@pytest.mark.parametrize("kind", [Odd, Pair])
def test_a_type_that_would_come_back_otherwise_is_its_author_s_error(kind: Any) -> None:
    with pytest.raises(TypeError, match="would not come back"):
        from_json(kind, b"{}")


@dataclass(frozen=True)
class Small:
    """Numbers as keys, and nothing where nothing was said."""

    by_number: Mapping[int, str]
    note: str = ""


def test_defaults_are_left_out() -> None:
    raw = to_json(Small({1: "a", 20: "b"}))
    assert raw == b'{"by_number":{"1":"a","20":"b"}}'
    assert from_json(Small, raw) == Small({1: "a", 20: "b"})
