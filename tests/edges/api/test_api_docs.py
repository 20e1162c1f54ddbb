"""The OpenAPI documents: valid, complete, and shown without a call to anywhere else."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from openapi_spec_validator import validate

from rag.core.types import MODES, RetrievalSettings
from tests.edges.api_client import ok

DOCUMENTS = ["/api/openapi.json", "/api/schema.json"]


@pytest.fixture
def retrieval(db: None) -> dict[str, Any]:
    return dict(ok(Client().get(DOCUMENTS[0])))


@pytest.fixture
def resources(db: None) -> dict[str, Any]:
    return dict(ok(Client().get(DOCUMENTS[1])))


@pytest.mark.django_db
@pytest.mark.parametrize("address", DOCUMENTS)
def test_the_documents_are_valid_and_say_so_without_a_key(address: str) -> None:
    document = ok(Client().get(address))
    validate(document)
    assert document["openapi"].startswith("3.")


def test_every_operation_of_the_resources_is_told(resources: dict[str, Any]) -> None:
    told = {
        (method, path)
        for path, methods in resources["paths"].items()
        for method in methods
        if method != "parameters"
    }
    assert told == {
        ("get", "/api/stores"),
        ("post", "/api/stores"),
        ("get", "/api/stores/{id}"),
        ("patch", "/api/stores/{id}"),
        ("delete", "/api/stores/{id}"),
        ("get", "/api/files"),
        ("post", "/api/files"),
        ("get", "/api/files/{id}"),
        ("patch", "/api/files/{id}"),
        ("delete", "/api/files/{id}"),
        ("get", "/api/files/{id}/original"),
        ("get", "/api/files/{id}/text"),
        ("get", "/api/chunks"),
        ("get", "/api/chunks/{id}"),
        ("patch", "/api/chunks/{id}"),
        ("post", "/api/chunks"),
        ("delete", "/api/chunks/{id}"),
        ("get", "/api/agents"),
        ("post", "/api/agents"),
        ("get", "/api/agents/{id}"),
        ("patch", "/api/agents/{id}"),
        ("delete", "/api/agents/{id}"),
        ("get", "/api/sessions"),
        ("get", "/api/sessions/{id}"),
        ("patch", "/api/sessions/{id}"),
        ("delete", "/api/sessions/{id}"),
        ("get", "/api/sessions/{id}/messages"),
        ("get", "/api/messages"),
        ("get", "/api/messages/{id}"),
        ("patch", "/api/messages/{id}"),
        ("post", "/api/messages/{id}/branch"),
        ("get", "/api/messages/{id}/citations/{number}"),
        ("get", "/api/memories"),
        ("post", "/api/memories"),
        ("get", "/api/memories/{id}"),
        ("patch", "/api/memories/{id}"),
        ("delete", "/api/memories/{id}"),
        ("delete", "/api/memories/all"),
        ("get", "/api/memories/choice"),
        ("patch", "/api/memories/choice"),
        ("get", "/api/golden-questions"),
        ("post", "/api/golden-questions"),
        ("get", "/api/golden-questions/{id}"),
        ("patch", "/api/golden-questions/{id}"),
        ("delete", "/api/golden-questions/{id}"),
        ("get", "/api/golden-questions/export"),
        ("post", "/api/golden-questions/import"),
        ("get", "/api/evaluation-runs"),
        ("post", "/api/evaluation-runs"),
        ("get", "/api/evaluation-runs/{id}"),
        ("delete", "/api/evaluation-runs/{id}"),
        ("get", "/api/evaluation-runs/{id}/results"),
        ("get", "/api/evaluation-runs/{id}/compare"),
        ("get", "/api/flows"),
        ("post", "/api/flows"),
        ("get", "/api/flows/{id}"),
        ("patch", "/api/flows/{id}"),
        ("delete", "/api/flows/{id}"),
        ("post", "/api/flows/{id}/check"),
        ("get", "/api/flows/{id}/export"),
        ("get", "/api/flows/{flow}/versions"),
        ("get", "/api/flows/{flow}/versions/{number}"),
        ("get", "/api/flows/{flow}/versions/{number}/diff"),
        ("post", "/api/flows/{flow}/versions/{number}/activate"),
        ("post", "/api/flows/{flow}/rollback"),
        ("get", "/api/flows/{flow}/runs"),
        ("get", "/api/flows/{flow}/runs/{key}"),
    }


def test_operations_tell_their_errors_and_how_to_sign_in(
    resources: dict[str, Any], retrieval: dict[str, Any]
) -> None:
    for document in (resources, retrieval):
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                assert {"401", "403", "404", "429"} <= set(operation["responses"]), (path, method)
                assert operation["summary"]
        schemes = document["components"]["securitySchemes"].values()
        assert {scheme["type"] for scheme in schemes} == {"http", "apiKey"}


def test_the_retrieval_document_tells_all_settings_with_limits(retrieval: dict[str, Any]) -> None:
    assert set(retrieval["paths"]) == {
        "/api/rag/retrieve",
        "/api/rag/ask",
        "/api/agents/{name}/chat",
        "/api/agents/{name}/chat/{key}",
        "/api/agents/{name}/chat/{key}/stop",
        "/api/quotes/{key}/{number}",
        "/api/quotes/{key}/{number}/marks",
        "/api/quotes/{key}/{number}/image",
        "/api/agents/{name}/graph",
        "/api/usage",
        "/api/messages/{key}/trace",
        "/api/flows/{name}/run",
        "/api/flows/{name}/stream",
        "/api/flows/{name}/runs/{key}/events",
        "/api/flows/{name}/runs/{key}/cancel",
        "/api/flows/{name}/runs/{key}/resume",
        "/api/flows/{name}/runs/{key}/replay",
        "/api/reindex",
        "/api/reindex/{run_id}",
        "/api/reindex/{run_id}/{deed}",
    }
    schemas = retrieval["components"]["schemas"]
    shape = schemas["RetrievalSettings"]
    assert set(shape["properties"]) == {one.name for one in dataclasses.fields(RetrievalSettings)}
    assert all(one["description"] for one in shape["properties"].values())
    assert shape["properties"]["mode"]["enum"] == list(MODES)
    assert shape["properties"]["top_k"]["anyOf"][0] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 200,
    }
    body = schemas["RetrieveBody"]
    assert body["required"] == ["query", "stores"]
    assert body["additionalProperties"] is False
    assert body["examples"][0]["query"]


def test_filters_and_uploads_are_told(resources: dict[str, Any]) -> None:
    listing = resources["paths"]["/api/files"]["get"]["parameters"]
    names = {one["name"] for one in listing}
    assert names == {
        "store",
        "status",
        "name",
        "kind",
        "content_type",
        "metadata",
        "ordering",
        "limit",
        "cursor",
    }
    upload = resources["paths"]["/api/files"]["post"]["requestBody"]["content"]
    assert set(upload) == {"multipart/form-data"}
    page = resources["paths"]["/api/files"]["get"]["responses"]["200"]["content"]
    name = page["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert set(resources["components"]["schemas"][name]["properties"]) == {"next", "results"}


@pytest.mark.django_db
@pytest.mark.parametrize(("query", "shown"), [("", DOCUMENTS[0]), ("?of=resources", DOCUMENTS[1])])
def test_the_page_shows_both_documents_from_this_server_only(query: str, shown: str) -> None:
    response = Client().get(f"/api/docs{query}")
    page = response.content.decode()
    assert f'data-url="{shown}"' in page
    for address in DOCUMENTS:
        assert f'href="{address}"' in page
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert all(source.startswith(("/", "?")) for source in sources)
    for source in sources:
        if source.startswith("/static/"):
            assert finders.find(source.removeprefix("/static/")), source
    assert "swagger-ui-bundle.js" in page


@pytest.mark.django_db
def test_the_page_speaks_chinese_too() -> None:
    page = Client(headers={"accept-language": "zh-hans"}).get("/api/docs").content.decode()
    assert '<html lang="zh-hans">' in page
    assert Client().post("/api/docs").status_code in (403, 405)
