"""NinjaAPIs of agents: the actions of ``/api/``, and OpenAI's protocol at ``/v1/``."""

from __future__ import annotations

from agents.api.chat.chat import quotes_router, trace_router
from agents.api.chat.chat import router as agents_router
from agents.api.chat.consents import router as consents_router
from agents.api.chat.visitors import authenticate_anybody
from agents.api.flows.language import router as flow_schema_router
from agents.api.flows.runs import router as flows_router
from agents.api.openai.errors import render_openai_error
from agents.api.openai.openai import router as openai_router
from agents.api.openai.responses import router as responses_router
from rag.api.http.authentication import CookieAuth, KeyAuth
from rag.api.http.described_api import DescribedAPI
from rag.api.http.errors import render_json

agents_api = DescribedAPI(
    auth=[KeyAuth(), CookieAuth()],
    namespace="agents-1",
    render=lambda request, failure: render_json(failure),
    # Visitors of a widget may ask, and read what their answers quote: nothing else takes their key.
    routers=[
        ("/agents", agents_router, authenticate_anybody),
        ("/flows", flows_router),
        ("/flow-schema", flow_schema_router),
        ("/consents", consents_router),
        ("/quotes", quotes_router, authenticate_anybody),
        ("/messages", trace_router),
    ],
)
openai_api = DescribedAPI(
    auth=KeyAuth(),
    namespace="openai",
    render=lambda request, failure: render_openai_error(failure),
    routers=[("", openai_router), ("", responses_router)],
)
