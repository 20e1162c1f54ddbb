"""Builder nodes: ``/api/rag/nodes/{id}`` reads and saves one, ``/run`` runs it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from rag.api.file_search.calls import run_cancellable
from rag.api.http.authentication import require_caller
from rag.api.http.bodies import read_json_object
from rag.api.http.errors import json_response
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.rag_node import RAGNodeData
from rag.services.answers import (
    RagNodeRequest,
    find_rag_node,
    run_rag_node,
    save_rag_node,
    serialize_rag_node,
)

router = Router()


@router.get("/nodes/{node_id}", url_name="file-search-node", include_in_schema=False)
def read_node(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Return a node's data."""
    scope = require_caller(request, "read").scope
    return json_response(serialize_rag_node(node=find_rag_node(scope=scope, node_id=node_id)))


@router.post("/nodes/{node_id}", url_name="file-search-node", include_in_schema=False)
def save_node(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Save a node's data and return it; one without a store gets one."""
    scope = require_caller(request, "write", "rag.add_store").scope
    data = RAGNodeData.from_wire(read_json_object(request))
    node = save_rag_node(scope=scope, node_id=node_id, data=data)
    return json_response(serialize_rag_node(node=node))


@router.post("/nodes/{node_id}/run", url_name="file-search-run", include_in_schema=False)
async def run_node(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Run a saved node with ``context`` and ``mockData`` and keep what it found."""
    scope = require_caller(request, "read").scope
    body = read_json_object(request)
    for name in ("context", "mockData"):
        if not isinstance(body.get(name) or {}, dict):
            raise InvalidInputError("{name} must be an object.", name=name)
    deadline, host = Deadline(2 * conf().timeout_s), request.get_host()
    return json_response(
        await run_cancellable(deadline, _run, host, scope, node_id, body, deadline)
    )


def _run(
    host: str, scope: Scope, node_id: str, body: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    node = find_rag_node(scope=scope, node_id=node_id)
    context, mock_data = body.get("context") or {}, body.get("mockData") or {}
    run = RagNodeRequest(node.node_data, context, mock_data, hosts=[host], node=node)
    return run_rag_node(run=run, scope=scope, deadline=deadline)
