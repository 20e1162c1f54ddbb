"""NinjaAPI of the knowledge base: the actions of ``/api/``."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from rag.api.file_search.errors import ROUTES, render_sentence
from rag.api.file_search.views import router as file_search_router
from rag.api.http.authentication import CookieAuth, KeyAuth
from rag.api.http.described_api import DescribedAPI
from rag.api.http.errors import HttpFailure, render_json
from rag.api.operations.reindex import router as reindex_router
from rag.api.operations.usage import router as usage_router
from rag.api.retrieval.rag import router as rag_router


def render_action_failure(request: HttpRequest, failure: HttpFailure) -> HttpResponseBase:
    """Return a failure as JSON; one of the file search routes as their sentence."""
    match = request.resolver_match
    is_sentence = match is not None and match.url_name in ROUTES
    return render_sentence(failure) if is_sentence else render_json(failure)


api = DescribedAPI(
    auth=[KeyAuth(), CookieAuth()],
    namespace="api-1",
    render=render_action_failure,
    routers=[
        ("/rag", rag_router),
        ("/rag", file_search_router),
        ("/reindex", reindex_router),
        ("/usage", usage_router),
    ],
)
