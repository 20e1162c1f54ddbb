"""NinjaAPI of ``/v1/``: authentication, errors and headers in the form of OpenAI's clients."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from ninja import NinjaAPI

from agents.api.openai.errors import openai_error, retry_headers
from agents.api.openai.openai import router
from project.api import KeyAuth
from rag.api.http.bodies import BodyParser
from rag.api.http.envelope import envelope
from rag.api.http.errors import error_response, status_response
from rag.services.access import RateLimit

PREFIX = "/v1/"
_KEPT = ("Allow", "Retry-After", "WWW-Authenticate")

openai_api = NinjaAPI(
    title="Citable: OpenAI's protocol",
    version="1",
    description="Agents as chat models, and the installation's embedding models.",
    urls_namespace="openai",
    auth=KeyAuth(),
    parser=BodyParser(),
    docs_url=None,
    openapi_url="/openapi.json",
)
openai_api.add_router("", router)


@openai_api.exception_handler(Exception)
def _answer(request: HttpRequest, error: Any) -> HttpResponse:
    response = error_response(request, error)
    if response is None:
        # Django logs it and the middleware answers 500.
        raise error
    return _as_openai(response)


for _known in list(openai_api._exception_handlers):
    openai_api.add_exception_handler(_known, _answer)


def _rewrite(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    return _as_openai(status_response(request, response.status_code))


def _limits(quota: RateLimit) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(quota.limit),
        "x-ratelimit-remaining-requests": str(quota.remaining),
        "x-ratelimit-reset-requests": f"{quota.reset_s}s",
    }


def _as_openai(response: HttpResponse) -> JsonResponse:
    status, body = openai_error(response.status_code, json.loads(response.content)["error"])
    answer = JsonResponse(body, status=status, json_dumps_params={"ensure_ascii": False})
    for name in _KEPT:
        if name in response:
            answer[name] = response[name]
    for name, value in retry_headers(status, str(body["error"]["code"])).items():
        answer[name] = value
    return answer


openai_envelope = envelope(PREFIX, _rewrite, _limits)
