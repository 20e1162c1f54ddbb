"""``/api/rag/nodes/{id}`` and ``/run``: nodes of a builder, kept and run. In and out: JSON."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from rag.api.file_search.http import json_answer, json_body, node_view
from rag.conf import conf
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.node import RAGNodeData
from rag.services.access.callers import Caller
from rag.services.answers.rag_node import (
    NodeRun,
    execute_node,
    find_node,
    keep_results,
    node_wire,
    save_node,
)


@csrf_exempt
async def node(request: HttpRequest, node_id: str) -> HttpResponseBase:
    """Return a node's data (GET), or save it first (POST); one without a store gets one."""
    view = _reading if request.method == "GET" else _saving
    return await view(request, node_id=node_id)


@node_view(["GET"], "read")
async def _reading(request: HttpRequest, caller: Caller, node_id: str) -> HttpResponseBase:
    return json_answer(await sync_to_async(_read)(caller, node_id))


@node_view(["GET", "POST"], "write", "add_store")
async def _saving(request: HttpRequest, caller: Caller, node_id: str) -> HttpResponseBase:
    data = RAGNodeData.from_wire(json_body(request))
    return json_answer(await sync_to_async(_save)(caller, node_id, data))


@node_view(["POST"], "read")
async def run(request: HttpRequest, caller: Caller, node_id: str) -> HttpResponseBase:
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
    return json_answer(output)


def _read(caller: Caller, node_id: str) -> dict[str, Any]:
    return node_wire(node=find_node(scope=caller.scope, node_id=node_id))


def _save(caller: Caller, node_id: str, data: RAGNodeData) -> dict[str, Any]:
    return node_wire(node=save_node(scope=caller.scope, node_id=node_id, data=data))


def _run(
    host: str, caller: Caller, node_id: str, body: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    kept = find_node(scope=caller.scope, node_id=node_id)
    run = NodeRun(
        kept.node_data, body.get("context") or {}, body.get("mockData") or {}, hosts=[host]
    )
    output = execute_node(run=run, scope=caller.scope, deadline=deadline)
    keep_results(node=kept, query=output["query"], documents=output["documents"])
    return output
