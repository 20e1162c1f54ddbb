"""Who asks. In: a user of Django's. Out: the Scope that every read path takes."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group

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
