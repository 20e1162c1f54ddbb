"""DRF authentication and permission classes: API key, session cookie, model permissions."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, BasePermission

from rag.api.http.authentication import authenticate, require_caller
from rag.services.access import Caller

_ACTIONS = {"POST": "add", "PUT": "change", "PATCH": "change", "DELETE": "delete"}


class CallerAuthentication(BaseAuthentication):  # type: ignore[misc]  # DRF has no types
    """A key in the header, or somebody signed in to the site; ``request.auth`` is the Caller."""

    def authenticate(self, request: Any) -> tuple[Any, Caller] | None:
        """Return user and caller, None for strangers."""
        caller = authenticate(request._request, "key", "session")
        return None if caller is None else (caller.user, caller)

    def authenticate_header(self, request: Any) -> str:
        """Return what makes a refusal a 401."""
        return "Bearer"


class RightsPermission(BasePermission):  # type: ignore[misc]  # DRF has no types
    """The key's right and, for changes, the model permission that the admin asks for too.

    Which rows, the view's queryset says by Scope.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        """Return False for strangers; raise ForbiddenError for a right that is missing."""
        if not isinstance(request.auth, Caller):
            return False
        if request.method in SAFE_METHODS:
            require_caller(request, "read")
        else:
            model, action = view.queryset.model._meta, _ACTIONS.get(request.method, "change")
            require_caller(request, "write", f"{model.app_label}.{action}_{model.model_name}")
        return True


class CallerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names the key and the cookie of the site: one of them is enough."""

    target_class = CallerAuthentication
    name = ["key", "cookie"]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        """Return each scheme as an alternative."""
        return [{name: []} for name in self.name]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, str]]:
        """Return both schemes."""
        return [
            {"type": "http", "scheme": "bearer", "description": "A key made in the admin."},
            {"type": "apiKey", "in": "cookie", "name": "sessionid"},
        ]
