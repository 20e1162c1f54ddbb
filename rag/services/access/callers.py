"""Callers: the Scope and rights of a Django user or an API key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group

from rag import models
from rag.core.access import Scope


def scope_of(user: AbstractBaseUser | AnonymousUser | None) -> Scope:
    """Return what ``user`` may see: superusers everything, others by owner and groups.

    Somebody unknown or switched off is anonymous: public stores only.
    """
    if user is None or not user.is_authenticated or not user.is_active:
        return Scope.anonymous()
    groups = Group.objects.filter(user=user.pk).values_list("pk", flat=True)
    return Scope(
        user_id=user.pk,
        group_ids=frozenset(groups),
        is_operator=bool(getattr(user, "is_superuser", False)),
    )


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a user, its rights as a Scope, and what its key narrows them to.

    ``key_id`` None: signed in, without a key; all rights.
    """

    user: Any
    scope: Scope
    rights: frozenset[str]
    key_id: int | None = None
    limit: int = 0


def caller_for_user(*, user: Any) -> Caller:
    """Return the caller that a signed-in user is."""
    return Caller(user, scope_of(user), frozenset(models.ApiKey.Right.values))
