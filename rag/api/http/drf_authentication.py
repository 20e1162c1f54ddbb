"""DRF authentication and permission classes: API key, session cookie, model permissions."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, BasePermission

from rag.api.http.authentication import authenticate_by_key, authenticate_by_session, require_right
from rag.core.errors import ForbiddenError
from rag.services.access import Caller

_DEEDS = {"POST": "add", "PUT": "change", "PATCH": "change", "DELETE": "delete"}


class KeyAuthentication(BaseAuthentication):  # type: ignore[misc]  # DRF has no types
    """A key in the header; ``request.auth`` is the Caller."""

    def authenticate(self, request: Any) -> tuple[Any, Caller] | None:
        """Return user and caller, None without a key."""
        caller = authenticate_by_key(request._request)
        return None if caller is None else (caller.user, caller)

    def authenticate_header(self, request: Any) -> str:
        """Return what makes a refusal a 401."""
        return "Bearer"


class CookieAuthentication(BaseAuthentication):  # type: ignore[misc]  # DRF has no types
    """Somebody who is signed in to the site; changes need the token against forgery."""

    def authenticate(self, request: Any) -> tuple[Any, Caller] | None:
        """Return user and caller, None for strangers."""
        caller = authenticate_by_session(request._request)
        return None if caller is None else (caller.user, caller)


class RightsPermission(BasePermission):  # type: ignore[misc]  # DRF has no types
    """The key's right and, for changes, the model permission that the admin asks for too.

    Which rows, the view's queryset says by Scope.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        """Return False for strangers; raise ForbiddenError for a right that is missing."""
        caller = request.auth
        if not isinstance(caller, Caller):
            return False
        if request.method in SAFE_METHODS:
            require_right(caller, "read")
            return True
        require_right(caller, "write")
        options = view.queryset.model._meta
        deed = _DEEDS.get(request.method, "change")
        if not caller.user.has_perm(f"{options.app_label}.{deed}_{options.model_name}"):
            raise ForbiddenError(
                "Your account lacks the permission {permission}.",
                hint="Ask an administrator for it.",
                permission=f"{deed}_{options.model_name}",
            )
        return True


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names a key."""

    target_class = KeyAuthentication
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer", "description": "A key made in the admin."}


class CookieScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names the cookie of the site."""

    target_class = CookieAuthentication
    name = "cookie"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the scheme."""
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
