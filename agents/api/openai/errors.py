"""Errors in the form of OpenAI's clients: status, body, retry headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import JsonResponse

from rag.api.http.errors import HttpFailure, json_response

_CODES = {
    "unauthenticated": "invalid_api_key",
    "rate_limited": "rate_limit_exceeded",
    "too_large": "request_too_large",
    "provider_timeout": "upstream_timeout",
    "provider": "upstream_error",
    "malformed": "invalid_json",
}
# Its clients try these again by themselves; here every layer below has done so already.
_NOT_AGAIN = frozenset({408, 409})


def render_openai_error(failure: HttpFailure) -> JsonResponse:
    """Return a failure as these clients read it."""
    status, body = openai_error(failure.status, failure.as_dict())
    retry = retry_headers(status, str(body["error"]["code"]))
    return json_response(body, status, failure.headers | retry)


def openai_error(status: int, error: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return status and body of ``{"error": {"message", "type", "param", "code"}}``.

    ``error`` is what ``/api/`` answers: code, message, hint, params, fields. Values that cannot be
    taken are a 400, as there.
    """
    params = error.get("params") or {}
    fields = error.get("fields") or {}
    message = " ".join(filter(None, [error["message"], error.get("hint")]))
    param = params.get("param")
    if fields:
        param = next(iter(fields)) or None
        message = " ".join(f"{name}: {' '.join(texts)}" for name, texts in fields.items())
    code = params.get("code") or _CODES.get(error["code"], error["code"])
    if error["code"] == "not_found" and "model" in params:
        param, code = "model", "model_not_found"
    if status == 429 and "resets_at" in params:
        # A budget, which waiting for a minute does not fill.
        code = "insufficient_quota"
    status = 400 if status == 422 else status
    told = {"message": message, "type": _type(status, code), "param": param, "code": code}
    return status, {"error": told}


def retry_headers(status: int, code: str = "") -> dict[str, str]:
    """Return what tells the client not to try again; with too many a minute it may."""
    # A database that is away comes back: its answer carries Retry-After.
    is_final = (status >= 500 and status != 503) or status in _NOT_AGAIN
    is_final = is_final or code == "insufficient_quota"
    return {"x-should-retry": "false"} if is_final else {}


def _type(status: int, code: str) -> str:
    if status == 429:
        return "requests" if code == "rate_limit_exceeded" else "insufficient_quota"
    if status >= 500:
        return "server_error"
    return "permission_error" if status == 403 else "invalid_request_error"
