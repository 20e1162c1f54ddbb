"""``POST /api/rag/store``: a store of either backend. In: a display name. Out: its names."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from rag import models
from rag.api.node_edge import json_answer, json_body, node_view
from rag.core.errors import InvalidInputError
from rag.services.access import Caller
from rag.services.name_store import make_named_store


@node_view(["POST"], "write", "add_store")
async def create(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Make a store that the caller owns; ``backend`` chooses where, else the installation does."""
    body = json_body(request)
    shown, backend = body.get("displayName", ""), body.get("backend") or ""
    for name, value in (("displayName", shown), ("backend", backend)):
        if not isinstance(value, str):
            raise InvalidInputError("{name} must be a text.", name=name)
    store = await sync_to_async(make_named_store)(
        scope=caller.scope, display_name=shown, backend=backend
    )
    return json_answer(store_wire(store))


def store_wire(store: models.Store) -> dict[str, Any]:
    """Return a store as the client knows it."""
    made = store.created_at.astimezone(UTC).isoformat(timespec="milliseconds")
    return {
        "name": store.resource_name,
        "displayName": store.display_name,
        "createTime": made.replace("+00:00", "Z"),
    }
