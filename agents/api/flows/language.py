"""Flow language by django-ninja: the JSON schema that editors complete and check YAML by."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from agents.flows.versions.language import installed_flow_schema
from rag.api.http.authentication import require_caller
from rag.api.http.schemas import PROBLEMS

router = Router(tags=["flows"])


@router.get(
    "",
    response={200: dict[str, Any], **PROBLEMS},
    summary="Read the JSON schema of flows",
)
def read_flow_schema(request: HttpRequest) -> dict[str, Any]:
    """Return what a flow's YAML may hold here (JSON schema, draft 2020-12).

    Made from the node types, data sources and tools that are installed, in the caller's language.
    """
    require_caller(request, "read")
    return installed_flow_schema()
