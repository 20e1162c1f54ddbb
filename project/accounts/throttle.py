"""Login throttle on django-axes: failures by account, by address and by browser, each with a limit.

A browser in which somebody has signed in before is counted by itself, so that neither an attack on
an account nor one from its owner's own network keeps the owner out. Nothing locks for ever: the
lock ends a while after the last counted failure, and attempts during it are not counted.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping
from datetime import timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.core import signing
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.timezone import now
from django.utils.translation import ngettext

COOKIE, COOKIE_AGE_S = "known_browser", 400 * 24 * 3600
_SALT = "project.accounts.known_browser"
Bucket = tuple["QuerySet[AccessAttempt]", int]


def client_address(request: HttpRequest) -> str:
    """Return who is counted for a request: an IPv4 address, or the /64 network of an IPv6 one.

    The address is that of the connection, or what a proxy that the web server trusts says of it.
    """
    told = request.META.get("REMOTE_ADDR", "")
    try:
        address = ip_address(told)
    except ValueError:
        return "0.0.0.0"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        # One subscriber has 2^64 of them.
        return str(ip_network(f"{address}/64", strict=False).network_address)
    return str(getattr(address, "ipv4_mapped", None) or address)


class LoginThrottle(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes has no types
    """Handler of django-axes with a limit for each bucket, where its own has one for all."""

    def get_failures(
        self, request: HttpRequest, credentials: Mapping[str, Any] | None = None
    ) -> int:
        """Return 1 where a bucket is full, the limit of the settings of django-axes, else 0."""
        wait_s = max(
            (_wait_s(rows, limit) for rows, limit in self._buckets(request, credentials)), default=0
        )
        request.login_wait_s = wait_s  # type: ignore[attr-defined]
        return int(wait_s > 0)

    def user_login_failed(
        self, sender: Any, credentials: Mapping[str, Any], request: Any = None, **kwargs: Any
    ) -> None:
        """Count a failure for the browser that is known, else for account and address."""
        if request is not None:
            # Whatever a browser calls itself is no reason for another row.
            request.axes_user_agent = _browser_id(request, _name(credentials))
        super().user_login_failed(sender, credentials, request, **kwargs)

    def user_logged_in(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        """Forget the failures of this account here, and let the browser be known from now on."""
        request.axes_user_agent = _browser_id(request, user.get_username())
        super().user_logged_in(sender, request, user, **kwargs)
        request.login_name = user.get_username()

    def filter_user_attempts(
        self, request: HttpRequest, credentials: Mapping[str, Any] | None = None
    ) -> list[QuerySet[AccessAttempt]]:
        """Return the rows that a success removes: an address stays as suspicious as it is."""
        return [next(self._buckets(request, credentials))[0]]

    def _buckets(self, request: Any, credentials: Mapping[str, Any] | None) -> Iterator[Bucket]:
        name, limits = _name(credentials), settings.LOGIN_FAILURES
        browser = _browser_id(request, name)
        rows = AccessAttempt.objects.filter(user_agent=browser)
        if browser:
            yield rows.filter(username=name), limits["pair"]
            return
        yield rows.filter(username=name, ip_address=request.axes_ip_address), limits["pair"]
        yield rows.filter(username=name), limits["account"]
        yield rows.filter(ip_address=request.axes_ip_address), limits["address"]


def _name(credentials: Mapping[str, Any] | None) -> str:
    return str((credentials or {}).get("username") or "")


def _wait_s(rows: QuerySet[AccessAttempt], limit: int) -> int:
    """Return the seconds until so many failures are old that fewer than the limit are left."""
    lock = timedelta(minutes=settings.LOGIN_LOCK_MINUTES)
    recent = rows.filter(attempt_time__gt=now() - lock).order_by("-attempt_time")
    n_failures = 0
    for failures, at in recent.values_list("failures_since_start", "attempt_time")[: limit + 1]:
        n_failures += failures
        if n_failures >= limit:
            left: float = (at + lock - now()).total_seconds()
            return max(1, math.ceil(left))
    return 0


def _browser_id(request: HttpRequest, name: str) -> str:
    """Return the id of a browser in which this account has signed in before, else nothing."""
    try:
        known = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=COOKIE_AGE_S)
    except signing.BadSignature:
        return ""
    return str(known["id"]) if name and known["name"] == name else ""


def remember_browser(request: HttpRequest, response: Any, name: str) -> None:
    """Set the signed cookie by which the next failures of this account are counted apart."""
    known = {"name": name, "id": _browser_id(request, name) or secrets.token_urlsafe(16)}
    response.set_cookie(
        COOKIE,
        signing.dumps(known, salt=_SALT),
        max_age=COOKIE_AGE_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def locked_response(request: HttpRequest) -> HttpResponse:
    """Return the answer of any door to who must wait: one sentence, 429 and ``Retry-After``."""
    wait_s = getattr(request, "login_wait_s", 0) or settings.LOGIN_LOCK_MINUTES * 60
    minutes = math.ceil(wait_s / 60)
    sentence = ngettext(
        "Too many attempts to log in failed. Try again in {n} minute.",
        "Too many attempts to log in failed. Try again in {n} minutes.",
        minutes,
    ).format(n=minutes)
    response = render(request, "accounts/notice.html", {"sentence": sentence}, status=429)
    response["Retry-After"] = str(wait_s)
    return response
