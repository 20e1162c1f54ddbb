"""NinjaAPI of ``/api/``: the routers of all apps, their authentication and error handler."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.security.base import AuthBase

from agents.api.chat.chat import router as agents_router
from agents.api.chat.quotes import router as quotes_router
from agents.api.chat.trace import router as trace_router
from agents.api.flows.run import router as flows_router
from agents.api.flows.runs import router as flow_runs_router
from rag.api.http.authentication import authenticate_by_key, authenticate_by_session
from rag.api.http.bodies import BodyParser
from rag.api.http.errors import error_response
from rag.api.operations.reindex import router as reindex_router
from rag.api.operations.usage import router as usage_router
from rag.api.retrieval.rag import router as rag_router
from rag.services.access import Caller


class KeyAuth(AuthBase):
    """A key in the header; named so in the OpenAPI document."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = "A key made in the admin."

    def __call__(self, request: HttpRequest) -> Caller | None:
        return authenticate_by_key(request)


class CookieAuth(AuthBase):
    """Somebody who is signed in to the site."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "sessionid"

    def __call__(self, request: HttpRequest) -> Caller | None:
        return authenticate_by_session(request)


api = NinjaAPI(
    title="Citable: retrieval",
    version="1",
    description="Search, context and answers. Stores, files and chunks: /api/schema.json.",
    auth=[KeyAuth(), CookieAuth()],
    parser=BodyParser(),
    docs_url=None,
    openapi_url="/openapi.json",
)
api.add_router("/rag", rag_router)
api.add_router("/reindex", reindex_router)
api.add_router("/agents", agents_router)
api.add_router("/flows", flows_router)
api.add_router("/flows", flow_runs_router)
api.add_router("/quotes", quotes_router)
api.add_router("/messages", trace_router)
api.add_router("/usage", usage_router)


@api.exception_handler(Exception)
def _answer(request: HttpRequest, error: Any) -> HttpResponse:
    response = error_response(request, error)
    if response is None:
        # Django logs it and the envelope answers 500.
        raise error
    return response


for _known in list(api._exception_handlers):
    api.add_exception_handler(_known, _answer)
