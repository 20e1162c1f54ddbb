"""Payer of a job's model calls: the user and key of whoever queued it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth import get_user_model

from rag import models
from rag.core.request_context import current_account, current_request, use_account


def current_payer() -> dict[str, int]:
    """Return the arguments that tell a job of whoever queues it; none where nobody asks."""
    account, who = current_account(), current_request().who
    user_id = who() if account.user_id is None and who is not None else account.user_id
    found = {"user_id": user_id, "key_id": account.key_id}
    return {name: pk for name, pk in found.items() if pk is not None}


@contextmanager
def charged_to(*, user_id: int | None = None, key_id: int | None = None) -> Iterator[None]:
    """Put what is done inside on the account of a user and a key, as far as they still exist."""
    user = get_user_model().objects.filter(pk=user_id or 0).values_list("pk", flat=True).first()
    key = models.ApiKey.objects.filter(pk=key_id or 0).values_list("pk", flat=True).first()
    with use_account(user_id=user, key_id=key):
        yield
