"""Whatever goes wrong below /api/ is told in one shape, in the language asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.api.http.bodies import read_json
from rag.api.http.errors import flat_fields, pydantic_fields
from rag.core import errors
from rag.core.errors import InvalidInputError, LimitError
from rag.services.access.api_keys import create_key
from tests.edges.api_client import WRITER, KeyClient, client_for, error_of
from tests.factories import StoreFactory, UserFactory

RETRIEVE = "/api/rag/retrieve"
BAD_JSON = [
    b"",
    b"{",
    b"nonsense",
    b"\xff\xfe",
    b'{"name": NaN}',
    b'{"name": 1e999}',
    b'{"name": "\\u0000"}',
    b'{"name": "\\ud800"}',
    b"[" * 100_000,
    b'{"a":' * 60 + b"1" + b"}" * 60,
    b"1" * 5000,
]


@pytest.fixture
def client(db: None) -> KeyClient:
    return client_for(UserFactory(permissions=WRITER))


@pytest.mark.parametrize("address", ["/api/stores", RETRIEVE])
@pytest.mark.parametrize("body", BAD_JSON, ids=range(len(BAD_JSON)))
def test_what_is_no_json_is_400_in_both(client: KeyClient, address: str, body: bytes) -> None:
    response = client.post(address, body, content_type="application/json")
    if body or address != RETRIEVE:
        assert error_of(response, 400)["code"] in ("malformed", "invalid_input")
    else:
        assert set(error_of(response, 422)["fields"]) == {""}


@pytest.mark.parametrize("body", [[], "x", 1, None, True])
def test_json_that_is_no_object_is_told(client: KeyClient, body: Any) -> None:
    sent = {"data": json.dumps(body), "content_type": "application/json"}
    assert error_of(client.post("/api/stores", **sent), 400)["fields"]
    error_of(client.post(RETRIEVE, **sent), 422)


@pytest.mark.parametrize("address", ["/api/stores", RETRIEVE])
def test_other_types_of_content_are_415(client: KeyClient, address: str) -> None:
    for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded"):
        response = client.post(address, b"<a/>", content_type=kind)
        assert error_of(response, 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize("address", ["/api/stores", RETRIEVE])
def test_a_huge_body_is_413(client: KeyClient, address: str) -> None:
    body = b'{"name": "' + b"x" * (5 * 1024**2) + b'"}'
    response = client.post(address, body, content_type="application/json")
    assert error_of(response, 413)["code"] == "too_large"


def test_other_forms_of_the_answer_are_406(client: KeyClient) -> None:
    response = client.get("/api/stores", headers={"accept": "text/html"})
    assert error_of(response, 406)["code"] == "not_acceptable"


@pytest.mark.parametrize(
    ("method", "address"),
    [("put", "/api/stores"), ("delete", "/api/files"), ("get", RETRIEVE), ("delete", RETRIEVE)],
)
def test_other_methods_are_405_and_say_which_are_possible(
    client: KeyClient, method: str, address: str
) -> None:
    response = getattr(client, method)(address)
    assert error_of(response, 405)["params"] == {"method": method.upper()}
    assert response["Allow"]


@pytest.mark.parametrize(
    "address",
    [
        "/api/",
        "/api/none",
        "/api/rag",
        "/api/rag/none",
        "/api/files/x",
        "/api/chunks/-1",
        "/api/chunks/99999999999999999999",
        "/api/files/9999999999999999999",
        "/api/%00",
    ],
)
def test_addresses_that_lead_nowhere_are_404_in_json(client: KeyClient, address: str) -> None:
    assert error_of(client.get(address), 404)["code"] == "not_found"


def test_they_are_whatever_is_sent_there(db: None) -> None:
    _, secret = create_key(user=UserFactory(), name="k", rights=["read", "write"])
    strict = Client(enforce_csrf_checks=True, headers={"authorization": f"Bearer {secret}"})
    for method in ("post", "put", "delete"):
        assert error_of(getattr(strict, method)("/api/rag/none"), 404)["code"] == "not_found"


def test_other_addresses_are_not_touched(db: None) -> None:
    assert "text/html" in Client().get("/none")["Content-Type"]


@pytest.mark.parametrize("address", ["/api/stores", RETRIEVE])
@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [(ZeroDivisionError, 500, "internal"), (OperationalError, 503, "unavailable")],
)
def test_a_fault_of_ours_is_told_in_json_without_its_details(
    client: KeyClient,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    fault: type[Exception],
    status: int,
    code: str,
) -> None:
    def fail(**_: Any) -> Any:
        raise fault("password=hunter2")

    monkeypatch.setattr("rag.api.retrieval.rag.find_stores", fail)
    monkeypatch.setattr("rag.api.resources.stores.create_store", fail)
    client.raise_request_exception = False
    body = {"name": "x"} if address == "/api/stores" else {"query": "x", "stores": ["x"]}
    response = client.post(address, body, content_type="application/json")
    assert error_of(response, status)["code"] == code
    assert b"hunter2" not in response.content
    assert response.get("Retry-After") == ("5" if status == 503 else None)


CASES = [
    (errors.InvalidInputError("a"), 400, "invalid_input"),
    (errors.UnknownNameError("mode", "x", ["y"]), 400, "unknown_name"),
    (errors.NotFoundError("a"), 404, "not_found"),
    (errors.ForbiddenError("a"), 403, "forbidden"),
    (errors.ConflictError("a"), 409, "conflict"),
    (errors.LimitError("a"), 413, "too_large"),
    (errors.LimitError("a", retry_after_s=7), 429, "rate_limited"),
    (errors.DocumentError("a"), 422, "unreadable_document"),
    (errors.ConfigurationError("a"), 500, "configuration"),
    (errors.ProviderError("a"), 502, "provider"),
    (errors.ProviderTimeoutError("a"), 504, "provider_timeout"),
    (errors.CancelledError("a"), 499, "cancelled"),
    (errors.RAGError("a"), 500, "error"),
]


@pytest.mark.parametrize(("error", "status", "code"), CASES, ids=[case[2] for case in CASES])
@pytest.mark.parametrize("address", ["/api/stores", RETRIEVE])
def test_one_map_serves_both(
    client: KeyClient,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    error: Exception,
    status: int,
    code: str,
) -> None:
    def fail(**_: Any) -> Any:
        raise error

    monkeypatch.setattr("rag.api.retrieval.rag.find_stores", fail)
    monkeypatch.setattr("rag.api.resources.stores.create_store", fail)
    body = {"name": "x"} if address == "/api/stores" else {"query": "x", "stores": ["x"]}
    response = client.post(address, body, content_type="application/json")
    assert error_of(response, status)["code"] == code
    assert response.get("Retry-After") == ("7" if status == 429 else None)


@pytest.mark.django_db
def test_errors_speak_the_language_asked_for() -> None:
    store = StoreFactory(owner=UserFactory(permissions=WRITER))
    english, chinese = client_for(store.owner), client_for(store.owner, language="zh-hans")
    body = {"query": "x", "stores": ["none"]}
    told = [error_of(one.send("post", RETRIEVE, body), 404) for one in (english, chinese)]
    assert told[0]["message"] == "There is no store “none”."
    assert "none" in told[1]["message"]
    assert told[1]["message"] != told[0]["message"]
    assert told[0]["params"] == told[1]["params"]
    fields = [
        error_of(one.send("post", "/api/stores", {}), 400)["fields"]["name"]
        for one in (english, chinese)
    ]
    assert fields[0] != fields[1]


def test_pydantic_s_errors_become_sentences() -> None:
    found = pydantic_fields(
        [
            {"type": "missing", "loc": ("body", "body", "query"), "msg": "Field required"},
            {
                "type": "greater_than_equal",
                "loc": ("body", "body", "a", 0),
                "msg": "",
                "ctx": {"ge": 3},
            },
            {"type": "new_kind", "loc": ("body", "body", "a", 0), "msg": "As pydantic says"},
            {"type": "model_type", "loc": ("body", "body"), "msg": "x"},
            {"type": "int_parsing", "loc": ("query", "after"), "msg": "x"},
        ]
    )
    assert found == {
        "query": ["This is needed."],
        "a.0": ["This must be 3 or more.", "As pydantic says"],
        "": ["This must be an object."],
        "after": ["This must be a whole number."],
    }


def test_nested_details_become_flat() -> None:
    detail = {
        "a": ["x", "y"],
        "b": {"c": ["z"]},
        "d": [{}, {"e": ["w"]}],
        "non_field_errors": ["v"],
    }
    assert flat_fields(detail) == {"a": ["x", "y"], "b.c": ["z"], "d.1.e": ["w"], "": ["v"]}


def test_of_thousands_of_wrong_fields_the_first_hundred_are_told(client: KeyClient) -> None:
    many = {f"k{number}": number for number in range(5000)}
    stores = {"name": "x", **many}
    question = {"query": "x", "stores": ["x"], **many}
    targets = {"store": "x", "query": "x", "targets": [{"a": 1}] * 5000}
    told = [
        error_of(client.send("post", "/api/stores", stores), 400)["fields"],
        error_of(client.send("post", RETRIEVE, question), 422)["fields"],
    ]
    assert [list(fields) for fields in told] == [[f"k{number}" for number in range(100)]] * 2
    writer = client_for(UserFactory(permissions=("add_goldenquestion",)))
    refused = error_of(writer.send("post", "/api/golden-questions", targets), 400)["fields"]
    assert list(refused) == ["targets"]


def test_what_is_right_in_a_list_takes_no_room_from_what_is_wrong() -> None:
    detail: list[Any] = [{}, [], ()] * 1000
    assert flat_fields({"a": [*detail, {"b": ["x"]}]}) == {"a.3000.b": ["x"]}
    assert len(flat_fields([{"b": ["x"]}] * 5000)) == 100
    assert len(flat_fields({str(number): ["x"] for number in range(5000)})) == 100


def test_objects_with_more_names_than_any_request_has_are_refused() -> None:
    body = '{"a": [' + ",".join(['{"b": 1, "c": 2}'] * 50_000) + "]}"
    with pytest.raises(InvalidInputError, match="more than 100000 names"):
        read_json(body.encode())
    # Long lists of plain values cost nothing.
    assert len(read_json(b"[" + b"1," * 200_000 + b"1]")) == 200_001


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_json_is_read_back_or_refused_for_a_reason(value: Any) -> None:
    text = json.dumps(value)
    bad = any(
        word in text
        for word in (
            "NaN",
            "Infinity",
            "\\u0000",
            "\\ud8",
            "\\ud9",
            "\\uda",
            "\\udb",
            "\\udc",
            "\\udd",
            "\\ude",
            "\\udf",
        )
    )
    try:
        assert read_json(text.encode()) == value
    except InvalidInputError:
        assert bad


def test_no_more_than_the_limit_is_read() -> None:
    with pytest.raises(LimitError, match="5 MB"):
        read_json(b" " * (5 * 1024**2 + 1))
    assert read_json(b'"' + b"x" * (5 * 1024**2 - 2) + b'"')
