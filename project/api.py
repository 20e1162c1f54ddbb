"""NinjaAPIs: the actions of ``/api/`` and OpenAI's protocol at ``/v1/``, one error map for both."""

from __future__ import annotations

from ninja import NinjaAPI

from agents.api.chat.chat import quotes_router, trace_router
from agents.api.chat.chat import router as agents_router
from agents.api.flows.runs import router as flows_router
from agents.api.openai.openai import router as openai_router
from project.middleware import render_failure
from rag.api.file_search.views import router as file_search_router
from rag.api.http.authentication import CookieAuth, KeyAuth
from rag.api.http.bodies import BodyParser
from rag.api.http.errors import install_error_map
from rag.api.operations.reindex import router as reindex_router
from rag.api.operations.usage import router as usage_router
from rag.api.retrieval.rag import router as rag_router

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
api.add_router("/rag", file_search_router)
api.add_router("/reindex", reindex_router)
api.add_router("/agents", agents_router)
api.add_router("/flows", flows_router)
api.add_router("/quotes", quotes_router)
api.add_router("/messages", trace_router)
api.add_router("/usage", usage_router)


install_error_map(api, render_failure)

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
openai_api.add_router("", openai_router)
install_error_map(openai_api, render_failure)
