"""Builder nodes: ``/api/rag/nodes/{id}`` reads and saves one, ``/run`` runs it."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from rag.api.file_search.http import json_body, json_response, node_view
from rag.conf import conf
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.rag_node import RAGNodeData
from rag.services.access import Caller
from rag.services.answers import (
    RagNodeRequest,
    execute_rag_node,
    find_rag_node,
    save_rag_node,
    save_rag_node_results,
    serialize_rag_node,
)


@csrf_exempt
async def node_detail(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Return a node's data (GET), or save it first (POST); one without a store gets one."""
    view = _reading if request.method == "GET" else _saving
    return await view(request, node_id=node_id)


@node_view(["GET"], "read")
async def _reading(request: HttpRequest, caller: Caller, node_id: str) -> HttpResponseBase:
    return json_response(await sync_to_async(_read)(caller, node_id))


@node_view(["GET", "POST"], "write", "add_store")
async def _saving(request: HttpRequest, caller: Caller, node_id: str) -> HttpResponseBase:
    data = RAGNodeData.from_wire(json_body(request))
    return json_response(await sync_to_async(_save)(caller, node_id, data))


@node_view(["POST"], "read")
async def run_node(request: HttpRequest, caller: Caller, node_id: str) -> HttpResponseBase:
    """Run a saved node with ``context`` and ``mockData`` and keep what it found."""
    body = json_body(request)
    for name in ("context", "mockData"):
        if not isinstance(body.get(name) or {}, dict):
            raise InvalidInputError("{name} must be an object.", name=name)
    deadline = Deadline(2 * conf().timeout_s)
    try:
        output = await sync_to_async(_run)(request.get_host(), caller, node_id, body, deadline)
    except asyncio.CancelledError:
        deadline.cancel()
        raise
    return json_response(output)


def _read(caller: Caller, node_id: str) -> dict[str, Any]:
    return serialize_rag_node(node=find_rag_node(scope=caller.scope, node_id=node_id))


def _save(caller: Caller, node_id: str, data: RAGNodeData) -> dict[str, Any]:
    return serialize_rag_node(node=save_rag_node(scope=caller.scope, node_id=node_id, data=data))


def _run(
    host: str, caller: Caller, node_id: str, body: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    kept = find_rag_node(scope=caller.scope, node_id=node_id)
    request = RagNodeRequest(
        kept.node_data, body.get("context") or {}, body.get("mockData") or {}, hosts=[host]
    )
    output = execute_rag_node(run=request, scope=caller.scope, deadline=deadline)
    save_rag_node_results(node=kept, query=output["query"], documents=output["documents"])
    return output
