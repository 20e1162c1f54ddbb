"""What only the database finds out is told as the request's matter, not as a fault of ours."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, DataError, IntegrityError, OperationalError
from django.http import HttpRequest

from rag import models
from rag.api.file_search.errors import to_sentence
from rag.api.http.errors import map_error, translate_database_error
from rag.core.errors import ConflictError, InvalidInputError
from tests.edges.api_client import client_for, error_of
from tests.factories import StoreFactory, UserFactory
from tests.integration.golden_world import golden_store

CHANGED = "Somebody else changed or deleted this at the same moment."
ADDRESSES = {
    "rag.api.retrieval.rag.find_stores": "/api/rag/retrieve",
    "rag.api.resources.stores.create_store": "/api/stores",
}


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (DataError("x"), InvalidInputError),
        (IntegrityError("x"), ConflictError),
        (DatabaseError("Save with update_fields did not affect any rows."), ConflictError),
        (models.File.DoesNotExist("x"), ConflictError),
        (OperationalError("x"), None),
        (ValueError("x"), None),
    ],
)
def test_errors_of_the_database_are_translated(fault: Exception, told: type | None) -> None:
    assert type(translate_database_error(fault)) is (told or type(None))


@pytest.mark.django_db
@pytest.mark.parametrize("place", ADDRESSES)
@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [(DataError, 400, "invalid_input"), (IntegrityError, 409, "conflict")],
)
def test_both_frameworks_tell_them_without_the_database_s_words(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    fault: type[Exception],
    status: int,
    code: str,
) -> None:
    def fail(**_: Any) -> Any:
        raise fault("duplicate key value violates rag_store_name")

    monkeypatch.setattr(place, fail)
    client = client_for(UserFactory(is_superuser=True))
    body = {"query": "x", "stores": ["x"]} if "rag" in ADDRESSES[place][5:] else {"name": "x"}
    error = error_of(client.send("post", ADDRESSES[place], body), status)
    assert error["code"] == code
    assert "rag_store_name" not in str(error)
    assert "rag_store_name" in caplog.text


def test_the_routes_of_the_node_tell_them_too() -> None:
    request = HttpRequest()
    conflict, invalid = (map_error(request, fault("x")) for fault in (IntegrityError, DataError))
    assert conflict is not None and to_sentence(conflict)[0] == 409
    assert invalid is not None
    status, sentence = to_sentence(invalid)
    assert (status, sentence.split(".")[0]) == (
        400,
        "The request holds a value that cannot be stored",
    )


@pytest.mark.django_db
def test_a_question_that_goes_while_it_is_changed_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, _ = golden_store()
    store.owner = UserFactory(is_superuser=True)
    store.save()
    question = models.GoldenQuestion.objects.create(store=store, query="How long?")

    def gone(*, query: str) -> str:
        models.GoldenQuestion.objects.all().delete()
        return query

    monkeypatch.setattr("rag.api.resources.golden.validated_query", gone)
    client = client_for(store.owner)
    response = client.send("patch", f"/api/golden-questions/{question.pk}", {"query": "Why?"})
    assert error_of(response, 409)["message"] == CHANGED


@pytest.mark.django_db
def test_a_text_whose_file_goes_while_it_is_read_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = StoreFactory(owner=UserFactory())
    client = client_for(store.owner)
    monkeypatch.setattr(
        "rag.api.resources.files.FileViews.get_object", lambda view: models.File(pk=2**40)
    )
    assert error_of(client.get("/api/files/1/text"), 409)["message"] == CHANGED
