"""Schema of errors, for the OpenAPI document of django-ninja."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ninja import Schema
from pydantic import Field


class Problem(Schema):
    """The shape of every error."""

    error: dict[str, Any] = Field(
        description="code, message, hint, params; fields when values cannot be taken."
    )


def json_body(
    properties: Mapping[str, Any], *, required: Sequence[str] = (), kind: str = "application/json"
) -> dict[str, Any]:
    """Return what the OpenAPI document says of a body that its view reads itself."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


# By status, for the operations of django-ninja; those that meet others' changes add a 409.
PROBLEMS = dict.fromkeys((400, 401, 403, 404, 422, 429), Problem)
