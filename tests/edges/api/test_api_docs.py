"""The OpenAPI document: valid, of every address, and shown without a call to anywhere else."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from openapi_spec_validator import validate

from rag.api.openapi import NO_NUL
from rag.core.types import MODES, RetrievalSettings
from tests.edges.api_client import ok

ADDRESS = "/api/openapi.json"
# Pages, and what only leads on to the document.
_NO_API = (
    "admin/",
    "chat",
    "widget/",
    "accounts/",
    "theme.css",
    "i18n/",
    "api/schema.json",
    "v1/openapi.json",
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(ok(Client().get(ADDRESS)))


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def routes(patterns: Sequence[Any] | None = None, prefix: str = "") -> Iterator[str]:
    """Yield each address of the site that is no page, with ``{}`` in place of parameters."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + re.sub(r"\(\?P?<[^>]+>[^)]*\)|<[^>]+>", "{}", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern) and route and not route.startswith(_NO_API):
            yield "/" + route.replace("^", "").replace("\\Z", "").removesuffix("$")


def test_the_document_is_valid_and_says_so_without_a_key(document: dict[str, Any]) -> None:
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_it_has_every_address(document: dict[str, Any]) -> None:
    told = {re.sub(r"\{[^}]+\}", "{}", path) for path in document["paths"]}
    assert set(routes()) - {"/api/", "/v1/"} - told == set()
    assert len(told) > 60


@pytest.mark.parametrize("address", ["/api/schema.json", "/v1/openapi.json"])
def test_what_were_documents_of_parts_leads_on_to_it(address: str) -> None:
    assert Client().get(address)["Location"] == ADDRESS


def test_names_are_one_thing_each(document: dict[str, Any]) -> None:
    names = [one["operationId"] for *_, one in operations(document) if "operationId" in one]
    assert len(set(names)) == len(names) > 90
    assert {"rag_retrieve_context", "rag_answer_question", "files_create"} <= set(names)


def test_texts_say_that_they_hold_no_nul_and_owners_may_be_nobody(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["AskBody"]["properties"]["query"]["pattern"] == NO_NUL
    assert not re.fullmatch(NO_NUL, "a\0b") and re.fullmatch(NO_NUL, "a\n忙")
    for name in ("StoreBody", "AgentBody", "FlowBody"):
        assert "null" in schemas[name]["properties"]["owner"]["type"]


def test_operations_tell_their_errors_and_how_to_sign_in(
    document: dict[str, Any],
) -> None:
    for path, method, operation in operations(document):
        assert operation["summary"]
        if "security" not in operation:
            continue
        told = {"400", "401", "403", "404", "429", "default"}
        told |= set() if method == "get" else {"409", "413", "415", "422"}
        assert told <= set(operation["responses"]), (path, method)
    schemes = document["components"]["securitySchemes"].values()
    assert {scheme["type"] for scheme in schemes} == {"http", "apiKey"}


def test_all_retrieval_settings_are_told_with_limits(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
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


def test_filters_and_uploads_are_told(document: dict[str, Any]) -> None:
    listing = document["paths"]["/api/files"]["get"]["parameters"]
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
    upload = document["paths"]["/api/files"]["post"]["requestBody"]["content"]
    assert set(upload) == {"multipart/form-data"}
    page = document["paths"]["/api/files"]["get"]["responses"]["200"]["content"]
    name = page["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert set(document["components"]["schemas"][name]["properties"]) == {"next", "results"}


@pytest.mark.django_db
def test_the_page_shows_it_from_this_server_only() -> None:
    page = Client().get("/api/docs").content.decode()
    assert f'data-url="{ADDRESS}"' in page
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
