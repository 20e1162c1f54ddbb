"""OpenAPI document: one for every address, made of what both frameworks know of their own.

What holds for all operations is declared here once: the forms of errors, how to sign in, and which
characters no text may hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.utils.translation import get_language, override
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

from rag.api.http.described_api import DESCRIBED
from rag.api.http.errors import json_response

_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
_METHODS = ("get", "post", "put", "patch", "delete")
_DESCRIPTION = (
    "Search, cited answers, agents, flows, stores and files; `/v1` speaks OpenAI's protocol, "
    "`/mcp` the Model Context Protocol. Bodies are JSON in UTF-8: no text holds a NUL or half of a "
    "character (a lone surrogate), and no number is infinite."
)
# PostgreSQL keeps no NUL; halves of characters are no UTF-8, which a pattern need not say.
NO_NUL = r"^[^\x00]*$"
_KEY = {"type": "http", "scheme": "bearer", "description": "A key made in the admin."}
_COOKIE = {"type": "apiKey", "in": "cookie", "name": "sessionid"}
_SCHEMAS: dict[str, Any] = {
    "OpenAIProblem": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"]},
                    "code": {"type": ["string", "null"]},
                },
            }
        },
    },
    "Sentence": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string"}},
    },
}
_STATUSES = {
    "400": "Malformed, or values that cannot be taken.",
    "401": "No key, or one that is unknown, expired or revoked.",
    "403": "Readable, but you or your key may not do this.",
    "404": "Not there, or nothing you may see.",
    "429": "Too many requests; see Retry-After.",
}
_CHANGING = {
    "409": "The name cannot be used, or it changed meanwhile.",
    "413": "Too large.",
    "415": "Another type of content is needed.",
    "422": "Values that cannot be taken.",
}
_OBJECT = {"type": "object"}


def _operation(tag: str, summary: str, kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"description": "OK", "content": {kind: {"schema": dict(schema)}}}
    return {"tags": [tag], "summary": summary, "responses": {"200": answer}}


_TEXT = {"type": "string"}
_RPC = _operation("mcp", "Speak the Model Context Protocol", "application/json", _OBJECT) | {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _OBJECT}}}
}
_RPC["responses"]["200"]["content"]["text/event-stream"] = {"schema": _TEXT}
_RPC["responses"]["202"] = {"description": "A notification was taken."}
_STATE = {"type": "object", "required": ["status"], "properties": {"status": _TEXT}}
_READY = _operation("operations", "Is this server ready?", "application/json", _STATE)
_READY["responses"]["503"] = {**_READY["responses"]["200"], "description": "Not yet, or no longer."}
_OPEN: dict[str, dict[str, Any]] = {
    "/healthz": {"get": _operation("operations", "Is it alive?", "application/json", _STATE)},
    "/readyz": {"get": _READY},
    "/metrics": {"get": _operation("operations", "Metrics for Prometheus", "text/plain", _TEXT)},
    "/api/openapi.json": {
        "get": _operation("operations", "This document", "application/json", _OBJECT)
    },
    "/api/docs": {"get": _operation("operations", "This document to read", "text/html", _TEXT)},
}
_FORMS = {"/v1/": "OpenAIProblem", "/api/rag/nodes": "Sentence"} | dict.fromkeys(
    ("/api/rag/search", "/api/rag/store", "/api/rag/upload"), "Sentence"
)


@csrf_exempt
@require_safe
def openapi_document(request: HttpRequest) -> JsonResponse:
    """Return the document of all addresses; descriptions of fields in the reader's language."""
    return json_response(_document(get_language() or "en"))


@lru_cache(maxsize=4)
def _document(language: str) -> dict[str, Any]:
    with override(language):
        parts = [
            SchemaGenerator().get_schema(request=None, public=True),  # type: ignore[no-untyped-call]
            *(one.get_openapi_schema() for one in DESCRIBED),
        ]
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = dict(_SCHEMAS)
    for part in reversed(parts):
        for path, operations in part["paths"].items():
            # HEAD is where GET is, which needs no second word.
            paths.setdefault(path, {}).update(_operations(operations))
        # Both describe the one form of errors; the last is the fuller one.
        schemas |= part["components"].get("schemas", {})
    for path, operations in paths.items():
        for method, operation in _operations(operations):
            _declare(path, method, operation)
    for name in _asked_for(paths, schemas):
        _forbid_nul(schemas[name])
        if name.endswith("Request"):
            # DRF's, each a StrictSerializer.
            schemas[name]["additionalProperties"] = False
    return {
        "openapi": "3.1.0",
        "info": {"title": "Citable", "version": "1", "description": _DESCRIPTION},
        "paths": dict(sorted({**paths, **_mcp(), **_OPEN}.items())),
        "components": {"schemas": schemas, "securitySchemes": {"key": _KEY, "cookie": _COOKIE}},
    }


def _asked_for(paths: Mapping[str, Any], schemas: Mapping[str, Any]) -> set[str]:
    """Return the schemas of what is sent here: those of requests, and what these lead to."""
    found = set[str]()
    waiting = [
        one.get("requestBody") for item in paths.values() for _, one in _operations(item) if one
    ]
    while waiting:
        names = set(_REFERENCE.findall(json.dumps(waiting.pop()))) - found
        found |= names
        waiting += [schemas[name] for name in names]
    return found


def _mcp() -> dict[str, Any]:
    if not settings.MCP_PATH:
        return {}
    operation = {**_RPC, "responses": dict(_RPC["responses"])}
    _declare(settings.MCP_PATH, "post", operation)
    operation["security"] = [{"key": []}]
    return {settings.MCP_PATH: {"post": operation}}


def _operations(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((method, item[method]) for method in _METHODS if method in item)


def _declare(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add what every operation answers, how it is opened, and what its texts may not hold."""
    form = next((name for start, name in _FORMS.items() if path.startswith(start)), "Problem")
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{form}"}}}
    responses = {str(status): told for status, told in operation["responses"].items()}
    for status, about in _STATUSES.items() | (_CHANGING.items() if method != "get" else set()):
        known = responses.get(status, {})
        responses[status] = {"description": known.get("description") or about, "content": content}
    responses.setdefault("default", {"description": "Any other failure.", "content": content})
    operation["responses"] = dict(sorted(responses.items()))
    is_key_only = path.startswith("/v1/")
    operation["security"] = [{"key": []}] if is_key_only else [{"key": []}, {"cookie": []}]
    for parameter in operation.get("parameters", ()):
        _forbid_nul(parameter.get("schema", {}))
    for body in operation.get("requestBody", {}).get("content", {}).values():
        _forbid_nul(body.get("schema", {}))


def _forbid_nul(schema: Any) -> None:
    """Say of each text of a schema that has no form of its own that it holds no NUL."""
    if isinstance(schema, list):
        for part in schema:
            _forbid_nul(part)
        return
    if not isinstance(schema, dict):
        return
    if (
        schema.get("type") == "string"
        and not {"pattern", "format", "enum", "const"} & schema.keys()
    ):
        schema["pattern"] = NO_NUL
    for name, inner in schema.items():
        if name in ("properties", "$defs"):
            for one in inner.values():
                _forbid_nul(one)
        elif name in ("items", "additionalProperties", "allOf", "anyOf", "oneOf"):
            _forbid_nul(inner)
