"""Sealed values open under their own name only; frozen values come back equal."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.analysis import Entity, QueryAnalysis
from rag.core.hits import Hit, Leg
from rag.core.types import SearchResult
from rag.providers.cache.sealed_cache import MAX_VALUE, Seal
from rag.services.search.result_cache import read_result, write_result

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
    assert read_result(write_result(result)) == result


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
    assert read_result(raw) is None
    assert read_result(b"[%b]" % raw) is None


EMPTY = SearchResult("q", (), "keyword", 1, "hash", {1: "a", 20: "b"}, {})


@pytest.mark.parametrize("score", [math.inf, -math.inf, 5e-324, 0.1 + 0.2, -0.0, 2.0**70])
def test_a_number_comes_back_as_it_was(score: float) -> None:
    found = replace(EMPTY, hits=(Hit(text="", rank=1, score=score, metadata={"n": [score]}),))
    assert repr(read_result(write_result(found))) == repr(found)


def test_a_score_that_is_no_number_comes_back() -> None:
    found = read_result(write_result(replace(EMPTY, confidence=math.nan)))
    assert found is not None
    assert found.confidence is not None
    assert math.isnan(found.confidence)


def test_defaults_are_left_out() -> None:
    raw = write_result(EMPTY)
    assert raw == (
        b'[{"query":"q","hits":[],"mode":"keyword","top_k":1,"settings_hash":"hash",'
        b'"routes":{"1":"a","20":"b"},"timings_ms":{}}]'
    )
    assert read_result(raw) == EMPTY
