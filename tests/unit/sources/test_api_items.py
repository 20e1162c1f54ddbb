"""From bytes of an answer to hits: what is picked, mapped, left out, and told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError, ProviderError, RAGError, UnknownNameError
from rag.core.hits import Hit
from rag.core.sources import SourceResult
from rag.plugins.sources.api_items import FIELDS, ItemReader

ANSWER = {
    "status": "success",
    "data": {
        "results": [
            {
                "text": "保修两年。",
                "name": "手册",
                "rel": 0.9,
                "ref": 7,
                "link": "https://a.example/7",
                "meta": {"page": 3},
            },
            {
                "text": "Two years.",
                "name": None,
                "rel": 1,
                "ref": "x-8",
                "link": "javascript:alert(1)",
            },
        ]
    },
}
FIELD_MAP = {
    "content": "text",
    "title": "name",
    "score": "rel",
    "id": "ref",
    "url": "link",
    "metadata": "{page: meta.page}",
}


def read(answer: Any, items: str = "", top_k: int = 10, **fields: str) -> SourceResult:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return ItemReader(items, fields, top_k).read(body, "application/json", host="api.example")


def test_items_are_picked_and_mapped() -> None:
    result = read(ANSWER, "data.results", **FIELD_MAP)
    first, second = result.hits
    assert (first.text, first.file_name, first.score, first.external_id) == (
        "保修两年。",
        "手册",
        0.9,
        "7",
    )
    assert first.metadata == {"page": 3, "url": "https://a.example/7"}
    assert first.data == ANSWER["data"]["results"][0]
    assert (first.rank, first.source, first.content_type) == (1, "api", "api")
    assert (second.file_name, second.score, second.external_id) == ("api.example", 1.0, "x-8")
    assert second.metadata == {"page": None}
    assert result.notes == ("1 urls were no web addresses and were left out.",)
    assert Hit.from_dict(json.loads(json.dumps(first.as_dict()))) == first


def test_an_expression_can_shape_a_text() -> None:
    result = read(ANSWER, "data.results[?rel > `0.95`]", content="join(': ', [ref, text])")
    assert [hit.text for hit in result.hits] == ["x-8: Two years."]


def test_without_expressions_a_list_is_the_items_and_an_object_is_one() -> None:
    assert [hit.text for hit in read(["a", "b"]).hits] == ["a", "b"]
    hit = read({"status": "ok", "data": {"n": [1, "二"]}, "none": None}).hits[0]
    assert hit.text == 'status: ok\ndata: {"n": [1, "二"]}'
    assert hit.data == {"status": "ok", "data": {"n": [1, "二"]}, "none": None}


def test_nothing_found_is_an_empty_result() -> None:
    assert read([]) == SourceResult()
    assert read({"hits": []}, "hits", content="text") == SourceResult()
    assert read({"hits": None}, "hits || `[]`", content="text") == SourceResult()


def test_only_so_many_are_taken_and_the_rest_is_counted() -> None:
    result = read([f"n{n}" for n in range(9)], top_k=4)
    assert [hit.rank for hit in result.hits] == [1, 2, 3, 4]
    assert result.notes == ("5 more items were left out (top_k is 4).",)


def test_items_without_a_content_are_left_out_and_counted() -> None:
    result = read([{"t": "a"}, {"t": " "}, {}, {"t": None}, {"t": "b"}], content="t")
    assert [(hit.text, hit.rank) for hit in result.hits] == [("a", 1), ("b", 2)]
    assert result.notes == ("3 items without a content were left out.",)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{",
        b"\xff\xfe\x00",
        b"NaN",
        b"[Infinity]",
        b"[1e999]",
        b"[" + b"9" * 400 + b"]",
    ],
)
def test_what_is_no_json_is_told(body: bytes) -> None:
    with pytest.raises(
        ProviderError, match=r"api\.example answered with something that is not JSON"
    ):
        read(body)


def test_the_type_and_size_of_what_is_no_json_are_named() -> None:
    with pytest.raises(ProviderError, match=r"\(text/html, 6 bytes\)"):
        ItemReader("", {}, 5).read(b"<html>", "text/html; charset=utf-8", host="api.example")


@pytest.mark.parametrize(
    ("charset", "encoded"),
    [
        ("gbk", '["退货"]'.encode("gbk")),
        ("big5", '["退貨"]'.encode("big5")),
        ("UTF-8", '["退货"]'.encode()),
        ("utf8", b"\xef\xbb\xbf" + '["退货"]'.encode()),
        ("", '["退货"]'.encode("utf-16")),
    ],
)
def test_an_answer_may_be_in_another_encoding(charset: str, encoded: bytes) -> None:
    kind = f'application/json; charset="{charset}"; x=1' if charset else "application/json"
    result = ItemReader("", {}, 5).read(encoded, kind, host="h")
    assert result.hits[0].text in ("退货", "退貨")


def test_an_encoding_nobody_knows_is_told() -> None:
    for charset in ("klingon", "hex", "utf-7-x"):
        with pytest.raises(ProviderError, match="not JSON"):
            ItemReader("", {}, 5).read(b"[]", f"application/json; charset={charset}", host="h")


def test_items_that_select_nothing_are_told_with_what_there_is() -> None:
    with pytest.raises(
        ProviderError, match=r"“items” \(data\.hits\) selects nothing.*status, data"
    ):
        read(ANSWER, "data.hits", content="text")


@pytest.mark.parametrize(
    ("items", "kind"),
    [("data", "object"), ("status", "string"), ("length(data.results)", "number")],
)
def test_items_that_are_no_list_are_told(items: str, kind: str) -> None:
    with pytest.raises(ProviderError, match=f"selects a value of type {kind} .*not an array"):
        read(ANSWER, items)


@pytest.mark.parametrize("payload", [None, 5, "text", True])
def test_an_answer_that_holds_no_items_is_told(payload: Any) -> None:
    with pytest.raises(ProviderError, match="neither array nor object"):
        read(payload)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"content": "meta"}, r"item 1 the field “content” \(meta\) is of type object, not string"),
        ({"content": "rel"}, "“content” .* is of type number, not string"),
        ({"content": "text", "score": "text"}, "“score” .* is of type string, not number"),
        ({"content": "text", "score": "rel > `0`"}, "“score” .* is of type boolean, not number"),
        ({"content": "text", "title": "meta"}, "“title” .* is of type object, not string"),
        ({"content": "text", "metadata": "ref"}, "“metadata” .* is of type number, not object"),
        ({"content": "text", "url": "ref"}, "“url” .* is of type number, not string"),
    ],
)
def test_a_field_of_another_type_is_told(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        read(ANSWER, "data.results", **fields)


def test_a_content_that_no_item_has_is_told() -> None:
    with pytest.raises(
        ProviderError, match="Of the 2 items of api.example none has a content: body"
    ):
        read(ANSWER, "data.results", content="body")


def test_items_that_are_neither_texts_nor_objects_are_told() -> None:
    with pytest.raises(ProviderError, match="Item 2 is of type number"):
        read(["a", 5])


@pytest.mark.parametrize("expression", ["a[", "a..b", "", "no_such(a)", "[?", "a" + "[" * 3000])
def test_an_expression_that_cannot_be_read_is_refused(expression: str) -> None:
    with pytest.raises(
        InvalidInputError, match="JMESPath expression .* of “content” does not work"
    ):
        read(ANSWER, "data.results", content=expression)


def test_an_expression_that_fails_on_the_answer_is_told() -> None:
    with pytest.raises(InvalidInputError, match="does not work"):
        read(ANSWER, "data.results", content="join(', ', rel)")


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="field “body”. Known: content"):
        read(ANSWER, body="text")
    with pytest.raises(InvalidInputError, match="no text"):
        ItemReader("", {"content": 5}, 5)  # type: ignore[dict-item]


def test_a_very_deep_answer_is_told() -> None:
    with pytest.raises(ProviderError, match="nested too deeply"):
        read(b"[" * 100_000 + b"]" * 100_000, "[]")


def test_texts_are_fit_for_a_database() -> None:
    hit = read(rb'[{"t": "a\u0000b\ud800c\ud83d\ude00", "\udfff": 1}]', content="t").hits[0]
    assert hit.text == "a\ufffdb\ufffdc😀"
    json.dumps(hit.as_dict(), ensure_ascii=False).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc") | st.text(), inner)
    ),
    max_leaves=20,
)


@given(
    json_values,
    st.sampled_from(["", "a", "a[]", "*"]),
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from("abc")),
)
def test_any_answer_ends_in_hits_or_an_error_for_people(
    payload: Any, items: str, fields: dict[str, str]
) -> None:
    try:
        result = read(payload, items, 3, **fields)
    except RAGError as error:
        assert str(error)
        return
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
    for hit in result.hits:
        assert hit.text.strip()
        assert Hit.from_dict(json.loads(json.dumps(hit.as_dict(), allow_nan=False))) == hit
