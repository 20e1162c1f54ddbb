"""Hits: the form that programs see, and that it comes back as it went."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError
from rag.core.hits import Hit, Leg

CHUNK = Hit(
    text="水泵每天运行四小时。",
    rank=2,
    score=0.83,
    file_name="HX-400手册.pdf",
    content_type="manual",
    chunk_id=7,
    revision=3,
    store_id=1,
    file_id=12,
    vector=Leg(1, 0.91),
    lexical=Leg(4, 7.5),
    matched_terms=("水泵", "运行"),
    char_start=120,
    char_end=130,
    page_first=4,
    page_last=5,
    heading_path=("维护", "水泵"),
    token_count=9,
    metadata={"year": 2024},
)
ROW = Hit(
    text="token_id: 42\nprice: 3.5",
    rank=1,
    source="database",
    file_name="prices",
    content_type="row",
    external_id="42",
    data={"token_id": 42, "price": 3.5, "note": None},
)


def through_json(hit: Hit) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(json.dumps(hit.as_dict(), allow_nan=False))
    return stored


@pytest.mark.parametrize("hit", [CHUNK, ROW, Hit(text="x", rank=1)])
def test_a_hit_survives_json(hit: Hit) -> None:
    assert Hit.from_dict(through_json(hit)) == hit


def test_a_chunk_shows_the_keys_that_agents_know() -> None:
    shown = CHUNK.as_dict()
    assert shown["content"] == "水泵每天运行四小时。"
    assert shown["score"] == 0.83
    assert shown["content_type"] == "manual"
    assert shown["document_id"] == "12"
    assert shown["source"] == {"type": "manual", "name": "HX-400手册.pdf", "id": "12"}
    assert shown["source_name"] == "vector_store"
    assert shown["highlights"] == ["水泵", "运行"]
    assert shown["vector"] == {"rank": 1, "score": 0.91}
    assert shown["lexical"] == {"rank": 4, "score": 7.5}
    assert (shown["page_first"], shown["page_last"]) == (4, 5)
    assert shown["heading_path"] == ["维护", "水泵"]
    assert shown["data"] is None


def test_a_row_of_another_source_shows_where_it_came_from() -> None:
    shown = ROW.as_dict()
    assert shown["document_id"] == "42"
    assert shown["source"] == {"type": "row", "name": "prices", "id": "42"}
    assert shown["source_name"] == "database"
    assert shown["score"] is None
    assert shown["data"] == {"token_id": 42, "price": 3.5, "note": None}
    assert shown["chunk_id"] is None


def test_a_document_is_called_by_its_source_or_by_our_file() -> None:
    assert CHUNK.document_id == "12"
    assert ROW.document_id == "42"
    assert Hit(text="x", rank=1).document_id == ""
    assert Hit(text="x", rank=1, file_id=3, external_id="files/abc").document_id == "files/abc"


def test_a_file_with_a_name_elsewhere_keeps_both_through_json() -> None:
    both = Hit(text="x", rank=1, file_id=3, external_id="files/abc")
    assert Hit.from_dict(through_json(both)) == both


def test_a_result_written_by_hand_needs_only_its_text() -> None:
    assert Hit.from_dict({"content": "x"}) == Hit(text="x", rank=1)
    by_hand = {
        "content": "x",
        "score": 0.4,
        "document_id": "d1",
        "source": {"type": "note", "name": "Diary", "id": "d1"},
    }
    assert Hit.from_dict(by_hand) == Hit(
        text="x", rank=1, score=0.4, file_name="Diary", content_type="note", external_id="d1"
    )
    assert Hit.from_dict({"content": "x", "source": {"id": 9}}).external_id == "9"
    assert Hit.from_dict({"content": "x", "document_id": "None"}).external_id == "None"
    assert Hit.from_dict({"content": "x", "source": None, "metadata": None}).metadata == {}


@pytest.mark.parametrize("stored", [{}, {"content": None}, {"content": 5}, {"text": "x"}])
def test_a_result_without_text_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="no text under “content”"):
        Hit.from_dict(stored)


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "manual.pdf"},
        {"vector": {"place": 1}},
        {"vector": 3},
        {"highlights": 5},
        {"metadata": 5},
        {"metadata": "year"},
        {"heading_path": True},
        {"char_start": "5"},
        {"page_first": [1]},
        {"chunk_id": {}},
        {"rank": "first"},
        {"score": "high"},
        {"score": float("nan")},
    ],
)
def test_a_result_of_a_wrong_shape_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="A result cannot be read: "):
        Hit.from_dict({"content": "x", **wrong})


def test_what_a_program_does_to_a_shown_hit_does_not_change_the_hit() -> None:
    shown = ROW.as_dict()
    shown["data"]["price"] = 0
    shown["metadata"]["x"] = 1
    assert ROW.data == {"token_id": 42, "price": 3.5, "note": None}
    assert ROW.metadata == {}


def test_a_hit_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CHUNK.rank = 1  # type: ignore[misc]


legs = st.builds(Leg, st.none() | st.integers(1, 99), st.none() | st.floats(-1, 100))
values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
bags = st.dictionaries(st.text(max_size=5), values | st.lists(values, max_size=2), max_size=3)
numbers = st.none() | st.integers(0, 10**9)


@given(
    st.builds(
        Hit,
        text=st.text(),
        rank=st.integers(1, 200),
        score=st.none() | st.floats(-1, 100),
        file_name=st.text(max_size=9),
        content_type=st.text(max_size=9),
        source=st.text(min_size=1, max_size=9),
        external_id=st.text(max_size=9),
        data=st.none() | bags,
        chunk_id=numbers,
        revision=numbers,
        store_id=numbers,
        file_id=st.none(),
        vector=legs,
        lexical=legs,
        matched_terms=st.lists(st.text(max_size=4), max_size=3).map(tuple),
        char_start=st.integers(0, 10**6),
        char_end=st.integers(0, 10**6),
        page_first=numbers,
        page_last=numbers,
        heading_path=st.lists(st.text(max_size=4), max_size=3).map(tuple),
        token_count=st.integers(0, 999),
        metadata=bags,
    )
)
def test_any_hit_survives_json(hit: Hit) -> None:
    assert Hit.from_dict(through_json(hit)) == hit


def test_a_score_that_no_float_holds_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="score is no number"):
        Hit.from_dict({"content": "text", "score": 10**400})
