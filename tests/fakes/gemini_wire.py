"""Fake Gemini: wire format, in either key case; error bodies."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from tests.fakes.loopback import Reply

VERSION = "/(?:v1|v1beta)"
# What stands under these keys belongs to the caller and keeps its names.
FREE_FORM = frozenset(
    ("args", "response", "responseJsonSchema", "parametersJsonSchema", "responseSchema")
)


def camel(value: Any) -> Any:
    """Return a request with camelCase keys, as the service reads both cases."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {
        re.sub("_([a-z])", lambda match: match[1].upper(), key): inner
        for key, inner in value.items()
    }
    return {key: inner if key in FREE_FORM else camel(inner) for key, inner in renamed.items()}


def error(
    status: int, name: str, message: str, details: list[dict[str, Any]] | None = None
) -> Reply:
    """Return an error body in Google's form."""
    body: dict[str, Any] = {"code": status, "message": message, "status": name}
    return Reply({"error": {**body, "details": details} if details else body}, status)


def retry_info(delay: str) -> dict[str, Any]:
    """Return the detail by which the service says how long to wait, such as "17s"."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def parts_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of all turns of a request in camelCase."""
    return [part for content in request.get("contents", []) for part in content.get("parts", [])]


def now() -> str:
    """Return the moment as the service writes it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
