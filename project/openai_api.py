"""OpenAI's protocol at ``/v1/``: the same keys and errors, told as its clients expect."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from ninja import NinjaAPI

from agents.api.openai import router
from agents.api.openai_errors import openai_error, retry_headers
from project.api import KeyAuth
from rag.api.bodies import BodyParser
from rag.api.problems import problem, problem_of_status
from rag.services.quotas import Quota

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


@sync_and_async_middleware
def openai_envelope(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]:
    """Return the middleware of ``/v1/``: OpenAI's shape for all errors, the limit's headers."""
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> HttpResponseBase:
            return _finish(request, await get_response(request))

        return middleware

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        return _finish(request, get_response(request))

    return sync_middleware


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if not request.path_info.startswith(PREFIX):
        return response
    is_json = response.get("Content-Type", "").startswith("application/json")
    if response.status_code >= 400 and not is_json:
        told = _as_openai(problem_of_status(request, response.status_code))
        for name in _KEPT:
            if name in response:
                told[name] = response[name]
        response = told
    quota = getattr(request, "rag_quota", None)
    if isinstance(quota, Quota):
        response["x-ratelimit-limit-requests"] = str(quota.limit)
        response["x-ratelimit-remaining-requests"] = str(quota.remaining)
        response["x-ratelimit-reset-requests"] = f"{quota.reset_s}s"
    return response


def _as_openai(told: HttpResponse) -> JsonResponse:
    status, body = openai_error(told.status_code, json.loads(told.content)["error"])
    answer = JsonResponse(body, status=status, json_dumps_params={"ensure_ascii": False})
    for name in _KEPT:
        if name in told:
            answer[name] = told[name]
    for name, value in retry_headers(status, str(body["error"]["code"])).items():
        answer[name] = value
    return answer
