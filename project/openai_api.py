"""OpenAI's protocol at ``/v1/``: the same keys and errors, told as its clients expect."""

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
from rag.api.http.errors import problem, problem_of_status
from rag.services.access.quotas import Quota

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
    told = problem(request, error)
    if told is None:
        # Django logs it and the middleware answers 500.
        raise error
    return _as_openai(told)


for _known in list(openai_api._exception_handlers):
    openai_api.add_exception_handler(_known, _answer)


def _told(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    return _as_openai(problem_of_status(request, response.status_code))


def _limits(quota: Quota) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(quota.limit),
        "x-ratelimit-remaining-requests": str(quota.remaining),
        "x-ratelimit-reset-requests": f"{quota.reset_s}s",
    }


def _as_openai(told: HttpResponse) -> JsonResponse:
    status, body = openai_error(told.status_code, json.loads(told.content)["error"])
    answer = JsonResponse(body, status=status, json_dumps_params={"ensure_ascii": False})
    for name in _KEPT:
        if name in told:
            answer[name] = told[name]
    for name, value in retry_headers(status, str(body["error"]["code"])).items():
        answer[name] = value
    return answer


openai_envelope = envelope(PREFIX, _told, _limits)
