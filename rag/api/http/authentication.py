"""Authentication and rights of requests: API key or session to a Caller, rate limits counted.

For django-ninja and Django REST framework alike. A refused key is left on the request, so that the
401 can say why.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from ninja.security.base import AuthBase
from ninja.utils import check_csrf
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, BasePermission

from rag.core.errors import ForbiddenError
from rag.core.request_context import current_request
from rag.services.access import (
    Caller,
    RateLimit,
    authenticate_key,
    caller_for_user,
    count_failed_call,
    count_key_call,
    count_user_call,
)
from rag.services.files import CappedUploadHandler

Scheme = Literal["key", "session"]
_SCHEMES = ("bearer", "token")


def authenticate(request: HttpRequest, *schemes: Scheme) -> Caller | None:
    """Return who calls, with the call counted; None when nobody known does.

    ``key`` is ``Authorization: Bearer KEY`` or ``Token KEY``; ``session`` that of somebody who is
    signed in to the site and sends no key. Raises LimitError when the caller, or an address with
    wrong keys, asked too often; ForbiddenError when a session's change lacks the CSRF token.
    """
    if not hasattr(request, "_files"):
        # Uploads go to disk, also where a project keeps its own small ones in memory.
        request.upload_handlers = [CappedUploadHandler(request)]
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() in _SCHEMES:
        return _by_key(request, secret.strip()) if "key" in schemes else None
    return _by_session(request) if "session" in schemes else None


def require_caller(request: Any, right: str, permission: str = "") -> Caller:
    """Return the caller of an authenticated request, who has the right; see ``require_right``."""
    caller: Caller = request.auth
    require_right(caller, right, permission)
    return caller


def require_right(caller: Caller, right: str, permission: str = "") -> None:
    """Raise ForbiddenError unless the key has ``read`` or ``write`` and the user the permission.

    ``permission`` is Django's, such as ``rag.add_store``: what the admin asks for, too.
    """
    if right not in caller.rights:
        raise ForbiddenError(
            "This key has no right “{right}”.", hint="Make a key that has it.", right=right
        )
    if permission and not caller.user.has_perm(permission):
        raise ForbiddenError(
            "Your account lacks the permission {permission}.",
            hint="Ask an administrator for it.",
            permission=permission.partition(".")[2],
        )


@sensitive_variables()
def _by_key(request: HttpRequest, secret: str) -> Caller | None:
    try:
        caller = authenticate_key(secret=secret)
    except ForbiddenError as refusal:
        cast(Any, request).rag_refusal = refusal
        _admit(request, count_failed_call(address=request.META.get("REMOTE_ADDR", "")))
        return None
    assert caller.key_id is not None
    current_request().user_id, current_request().key_id = caller.user.pk, caller.key_id
    _admit(request, count_key_call(key_id=caller.key_id, limit=caller.limit))
    return caller


def _by_session(request: HttpRequest) -> Caller | None:
    user = request.user
    if not user.is_authenticated or not user.is_active:
        return None
    if check_csrf(request) is not None:
        raise ForbiddenError(
            "The request does not prove that it comes from this site.",
            hint="Send the header X-CSRFToken with the value of the cookie csrftoken, or a key.",
        )
    current_request().user_id = user.pk
    _admit(request, count_user_call(user_id=user.pk))
    return caller_for_user(user=user)


def _admit(request: HttpRequest, limit: RateLimit) -> None:
    cast(Any, request).rag_quota = limit
    limit.check()


class KeyAuth(AuthBase):
    """A key in the header; named so in the OpenAPI document."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = "A key made in the admin."

    def __call__(self, request: HttpRequest) -> Caller | None:
        return authenticate(request, "key")


class CookieAuth(AuthBase):
    """Somebody who is signed in to the site."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "sessionid"

    def __call__(self, request: HttpRequest) -> Caller | None:
        return authenticate(request, "session")


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
        if view.action is None:
            # A method that is none of this address: 405, whatever the caller may do.
            return True
        if request.method in SAFE_METHODS:
            require_caller(request, "read")
        else:
            model, action = view.queryset.model._meta, _ACTIONS.get(request.method, "change")
            require_caller(request, "write", f"{model.app_label}.{action}_{model.model_name}")
        return True


class CallerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names the key and the cookie of the site: one of them is enough."""

    target_class = CallerAuthentication
    match_subclasses = True
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
