"""Schema of errors, for the OpenAPI document of django-ninja."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import Field


class Problem(Schema):
    """The shape of every error."""

    error: dict[str, Any] = Field(
        description="code, message, hint, params; fields when values cannot be taken."
    )
