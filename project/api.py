"""NinjaAPIs: the actions of ``/api/`` and OpenAI's protocol at ``/v1/``, one error map for both.

What the two and the resources describe together is ``project.openapi``.
"""

from __future__ import annotations

from ninja import NinjaAPI
from ninja.operation import Operation

from agents.api.chat.chat import quotes_router, trace_router
from agents.api.chat.chat import router as agents_router
from agents.api.chat.consents import router as consents_router
from agents.api.chat.visitors import authenticate_anybody
from agents.api.flows.runs import router as flows_router
from agents.api.openai.openai import router as openai_router
from agents.api.openai.responses import router as responses_router
from project.middleware import render_failure
from rag.api.file_search.views import router as file_search_router
from rag.api.http.authentication import CookieAuth, KeyAuth
from rag.api.http.bodies import BodyParser
from rag.api.http.errors import install_error_map
from rag.api.operations.reindex import router as reindex_router
from rag.api.operations.usage import router as usage_router
from rag.api.retrieval.rag import router as rag_router


class DescribedAPI(NinjaAPI):
    """A NinjaAPI whose operations are named for generated clients: tag and function."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return such as ``rag_answer_question``."""
        tag = (operation.tags or ["api"])[0].replace(" ", "_")
        return f"{tag}_{operation.view_func.__name__}"


api = DescribedAPI(
    version="1",
    auth=[KeyAuth(), CookieAuth()],
    parser=BodyParser(),
    docs_url=None,
    openapi_url=None,
)
api.add_router("/rag", rag_router)
api.add_router("/rag", file_search_router)
api.add_router("/reindex", reindex_router)
# Visitors of a widget may ask, and read what their answers quote: nothing else takes their key.
api.add_router("/agents", agents_router, auth=authenticate_anybody)
api.add_router("/flows", flows_router)
api.add_router("/consents", consents_router)
api.add_router("/quotes", quotes_router, auth=authenticate_anybody)
api.add_router("/messages", trace_router)
api.add_router("/usage", usage_router)


install_error_map(api, render_failure)

openai_api = DescribedAPI(
    version="1",
    urls_namespace="openai",
    auth=KeyAuth(),
    parser=BodyParser(),
    docs_url=None,
    openapi_url=None,
)
openai_api.add_router("", openai_router)
openai_api.add_router("", responses_router)
install_error_map(openai_api, render_failure)


def _answer_head(*apis: NinjaAPI) -> None:
    """Let HEAD be asked wherever GET is; the server sends no body then."""
    for one in apis:
        for _, router in one._routers:
            for view in router.path_operations.values():
                for operation in view.operations:
                    if operation.methods == ["GET"]:
                        operation.methods = ["GET", "HEAD"]


_answer_head(api, openai_api)
