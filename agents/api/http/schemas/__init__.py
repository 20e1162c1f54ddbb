"""To be written."""

from __future__ import annotations

from typing import Any

from ninja import Schema


class Problem(Schema):
    """The shape of every error."""

    error: dict[str, Any]
