"""Caller of an authenticated request, with the right that the route needs."""

from __future__ import annotations

from typing import Any

from rag.core.errors import ForbiddenError
from rag.services.access import Caller


def require_caller(request: Any, right: str) -> Caller:
    """Return the caller; raise ForbiddenError when its key lacks ``read`` or ``write``."""
    caller: Caller = request.auth
    if right not in caller.rights:
        raise ForbiddenError(
            "This key has no right “{right}”.", hint="Make a key that has it.", right=right
        )
    return caller
