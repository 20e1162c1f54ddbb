"""Callers: Scope and rights of a user or an API key; keys created, checked and revoked."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import OuterRef, Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError, NotFoundError, UnknownNameError
from rag.providers.postgres.db.connections import fetch_planned, model_columns, row_to_model


def scope_of(user: AbstractBaseUser | AnonymousUser | None) -> Scope:
    """Return what ``user`` may see: superusers everything, others by owner and groups.

    Somebody unknown or switched off is anonymous: public stores only.
    """
    if user is None or not user.is_authenticated or not user.is_active:
        return Scope.anonymous()
    return _scope_of_groups(user, Group.objects.filter(user=user.pk).values_list("pk", flat=True))


def _scope_of_groups(user: Any, groups: Iterable[int]) -> Scope:
    return Scope(
        user_id=user.pk,
        group_ids=frozenset(groups),
        is_operator=bool(getattr(user, "is_superuser", False)),
    )


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a user, its rights as a Scope, and what its key narrows them to.

    ``key_id`` None: signed in, without a key; all rights. ``footnotes`` None: as the agent says.
    """

    user: Any
    scope: Scope
    rights: frozenset[str]
    key_id: int | None = None
    limit: int = 0
    footnotes: bool | None = None


def caller_for_user(*, user: Any) -> Caller:
    """Return the caller that a signed-in user is."""
    return Caller(user, scope_of(user), frozenset(models.ApiKey.Right.values))


_MARK, _PUBLIC_CHARS, _SECRET_BYTES = "ck_", 8, 32


def create_key(
    *,
    user: Any,
    name: str,
    rights: Sequence[str] = ("read",),
    stores: Sequence[models.Store] | None = None,
    expires_at: datetime | None = None,
    requests_per_minute: int = 600,
) -> tuple[models.ApiKey, str]:
    """Return a new key's row and the key itself, which nobody can tell again.

    ``stores`` None means all that the user may see. Raises InvalidInputError for a missing name,
    right or future, NotFoundError for a store that the user may not read.
    """
    validate_key(user=user, name=name, rights=rights, stores=stores or (), expires_at=expires_at)
    if not 1 <= requests_per_minute <= models.api_key.MAX_PER_MINUTE:
        raise InvalidInputError(
            "{name} is {value}.",
            hint="Allowed: {low} to {high}.",
            name="requests_per_minute",
            value=requests_per_minute,
            low=1,
            high=models.api_key.MAX_PER_MINUTE,
        )
    public = secrets.token_hex(_PUBLIC_CHARS // 2)
    secret = f"{_MARK}{public}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    with transaction.atomic():
        key = models.ApiKey.objects.create(
            name=name.strip()[:100],
            user=user,
            prefix=f"{_MARK}{public}",
            digest=_digest(secret),
            rights=sorted(set(rights)),
            is_limited=stores is not None,
            expires_at=expires_at,
            requests_per_minute=requests_per_minute,
        )
        key.stores.set(stores or ())
    return key, secret


def validate_key(
    *,
    user: Any,
    name: str,
    rights: Sequence[str],
    stores: Sequence[models.Store],
    expires_at: datetime | None,
) -> None:
    """Raise what ``create_key`` would: InvalidInputError, or NotFoundError for a store."""
    if not name.strip():
        raise InvalidInputError("A key needs a name.")
    for right in rights:
        if right not in models.ApiKey.Right.values:
            raise UnknownNameError("right", right, models.ApiKey.Right.values)
    if not rights:
        raise InvalidInputError("A key without rights is of no use.", hint="Choose at least one.")
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInputError("The key would be expired already.", hint="Choose a later time.")
    readable = models.Store.objects.readable(scope_of(user))
    found = set(readable.filter(pk__in=[store.pk for store in stores]).values_list("pk", flat=True))
    for store in stores:
        if store.pk not in found:
            raise NotFoundError("There is no store “{name}”.", name=store.name)


def revoke_key(*, key: models.ApiKey) -> bool:
    """End a key for good; return False when it had ended before."""
    now = timezone.now()
    live = models.ApiKey.objects.filter(pk=key.pk, revoked_at=None)
    return bool(live.update(revoked_at=now))


@sensitive_variables()
def authenticate_key(*, secret: str) -> Caller:
    """Return who calls with this key; raise ForbiddenError when nobody may.

    The key is looked up by its digest: how long that takes tells nothing about the key.
    """
    digest = _digest(secret)
    rows = fetch_planned(_key_statement(), [digest])
    if not rows or not hmac.compare_digest(rows[0][1], digest):
        raise ForbiddenError("The key is not known.", hint="Check that it is complete.")
    (
        (pk, _, revoked_at, expires_at, rights, limit, is_limited, footnotes, store_ids, groups),
        columns,
    ) = rows[0][:10], rows[0][10:]
    if revoked_at is not None:
        raise ForbiddenError("The key was revoked.", hint="Make a new one.")
    if expires_at is not None and expires_at <= timezone.now():
        raise ForbiddenError("The key has expired.", hint="Make a new one.")
    user = row_to_model(get_user_model(), columns)
    if not user.is_active:
        raise ForbiddenError("The user of this key is switched off.")
    only = frozenset(store_ids) if is_limited else None
    scope = replace(_scope_of_groups(user, groups), key_id=pk, only_store_ids=only)
    return Caller(user, scope, frozenset(rights), pk, limit, footnotes)


# Each request asks it; putting it together takes longer than running it.
@lru_cache(maxsize=1)
def _key_statement() -> str:
    """Return the statement of a digest: its key, the stores and the groups, and the user's row."""
    stores = models.ApiKey.stores.through.objects.filter(apikey=OuterRef("pk"))
    groups = Group.objects.filter(user=OuterRef("user")).order_by()
    names = [
        "digest",
        "revoked_at",
        "expires_at",
        "rights",
        "requests_per_minute",
        "is_limited",
        "footnotes",
    ]
    rows = models.ApiKey.objects.filter(digest="").values_list(
        "pk",
        *names,
        ArraySubquery(stores.values("store")),
        ArraySubquery(groups.values("pk")),
        *model_columns(get_user_model(), "user__"),
    )
    return rows.query.sql_with_params()[0]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_live_key(*, key_id: int) -> bool:
    """Return False once a key is revoked, expired or gone, or its user switched off."""
    keys = models.ApiKey.objects.filter(pk=key_id, revoked_at=None, user__is_active=True)
    return keys.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now())).exists()
