"""Consistency check of single sign-on: settings that are half made, groups that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import Group

from rag.services.operations.check_result import CheckResult

_NEEDED = ("OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET")
_OPTIONAL = ("OIDC_GROUPS", "OIDC_STAFF_GROUPS")


def check_sign_on() -> Iterator[CheckResult]:
    """Report what is missing of a sign-on that was begun; the provider is not asked."""
    given = [name for name in (*_NEEDED, *_OPTIONAL) if getattr(settings, name)]
    if not given:
        return
    if missing := [name for name in _NEEDED if not getattr(settings, name)]:
        yield _finding(
            "error",
            f"{', '.join(given)} set, {', '.join(missing)} not: single sign-on cannot work",
            "Set all three, or none.",
        )
    issuer = urlsplit(settings.OIDC_ISSUER)
    if settings.OIDC_ISSUER and issuer.scheme != "https":
        yield _finding(
            "warning",
            "OIDC_ISSUER is not https: what the provider says can be changed on its way",
            "Give the provider's address with https://.",
        )
    names = {str(name) for name in settings.OIDC_GROUPS.values()}
    known = set(Group.objects.filter(name__in=names).values_list("name", flat=True))
    if unknown := sorted(names - known):
        yield _finding(
            "error",
            f"OIDC_GROUPS names groups that do not exist: {', '.join(unknown)}",
            "Make them in the admin, or correct the setting: their people are refused.",
        )
    if settings.OIDC_ISSUER and not settings.OIDC_GROUPS:
        yield _finding(
            "note",
            "everybody whom the provider knows may sign in, since OIDC_GROUPS is empty",
            "Name the groups that may come in with OIDC_GROUPS.",
        )


def _finding(level: str, fault: str, todo: str) -> CheckResult:
    return CheckResult("sign-on", level, fault, todo)
