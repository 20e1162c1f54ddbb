"""Authentication of requests: API key or session to a Caller, with rate limits counted.

A refused key is left on the request, so that the 401 can say why.
"""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables
from ninja.utils import check_csrf

from rag.core.errors import ForbiddenError, LimitError
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

_SCHEMES = ("bearer", "token")


@sensitive_variables()
def authenticate_by_key(request: HttpRequest) -> Caller | None:
    """Return the caller of ``Authorization: Bearer KEY`` or ``Token KEY``.

    Raises LimitError when the key, or an address with wrong keys, asked too often.
    """
    secret = _key_of(request)
    if secret is None:
        return None
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


def authenticate_by_session(request: HttpRequest) -> Caller | None:
    """Return the caller who is signed in to the site and sends no key.

    Raises ForbiddenError when a changing request lacks the token against forgery.
    """
    user = request.user
    if _key_of(request) is not None or not user.is_authenticated or not user.is_active:
        return None
    if check_csrf(request) is not None:
        raise ForbiddenError(
            "The request does not prove that it comes from this site.",
            hint="Send the header X-CSRFToken with the value of the cookie csrftoken, or a key.",
        )
    current_request().user_id = user.pk
    _admit(request, count_user_call(user_id=user.pk))
    return caller_for_user(user=user)


def require_right(caller: Caller, right: str) -> None:
    """Raise ForbiddenError unless the caller's key has the right ``read`` or ``write``."""
    if right not in caller.rights:
        raise ForbiddenError(
            "This key has no right “{right}”.", hint="Make a key that has it.", right=right
        )


def _key_of(request: HttpRequest) -> str | None:
    scheme, _space, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() in _SCHEMES else None


def _admit(request: HttpRequest, quota: RateLimit) -> None:
    cast(Any, request).rag_quota = quota
    if quota.is_exceeded:
        raise LimitError(
            "More than {limit} requests came within a minute.",
            hint="Try again in {retry_after_s} seconds.",
            limit=quota.limit,
            retry_after_s=quota.reset_s,
        )
