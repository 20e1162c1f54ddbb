"""Idempotency: one request by a key of its caller's is done once, and its result told again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

from rag import models
from rag.core.errors import ConflictError

KEPT = timedelta(hours=24)
# Who has not answered by then was killed.
ABANDONED = timedelta(minutes=15)
MAX_KEPT, MAX_RESULT, _PRUNED = 1000, 256 * 1024, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeatable:
    """A request that may be sent again: whose, by which key, and a digest of what it asks.

    A result is told again under the ``state`` that it was made in alone: rights, stores.
    """

    caller: str
    key: str
    fingerprint: str
    state: str = ""


def claim_request(*, request: Repeatable) -> dict[str, Any] | None:
    """Return what came of the request before; None where it is to be done now.

    Raises ConflictError while it is at work, and for a key that came with another request.
    """
    now = timezone.now()
    row, is_new = models.RepeatableRequest.objects.get_or_create(
        caller=request.caller,
        key=request.key,
        defaults={"fingerprint": request.fingerprint, "created_at": now},
    )
    if is_new:
        _prune(request.caller, now)
        return None
    if row.created_at < now - KEPT:
        _take_over(row, request, now)
        return None
    if row.fingerprint != request.fingerprint:
        raise ConflictError(
            "This Idempotency-Key came with another request.",
            hint="Send each request with a key of its own.",
        )
    if row.result is not None and row.result["state"] == request.state:
        found: dict[str, Any] = row.result["value"]
        return found
    if row.result is not None or row.created_at < now - ABANDONED:
        _take_over(row, request, now)
        return None
    raise ConflictError(
        "The request with this Idempotency-Key is being worked on.",
        hint="Wait a moment, and send it again.",
    )


def keep_result(*, request: Repeatable, result: Mapping[str, Any]) -> None:
    """Keep what came of a claimed request; one that is too large is done anew when it is sent."""
    if len(json.dumps(result, cls=DjangoJSONEncoder)) > MAX_RESULT:
        forget_request(request=request)
        return
    _rows(request).update(result={"state": request.state, "value": result})


def forget_request(*, request: Repeatable) -> None:
    """Let a request that failed be sent again."""
    _rows(request).filter(result__isnull=True).delete()


def _rows(request: Repeatable) -> Any:
    return models.RepeatableRequest.objects.filter(caller=request.caller, key=request.key)


def _take_over(row: models.RepeatableRequest, request: Repeatable, now: datetime) -> None:
    mine = models.RepeatableRequest.objects.filter(pk=row.pk, created_at=row.created_at)
    if not mine.update(created_at=now, fingerprint=request.fingerprint, result=None):
        # Somebody else did at this very moment.
        raise ConflictError(
            "The request with this Idempotency-Key is being worked on.",
            hint="Wait a moment, and send it again.",
        )


def _prune(caller: str, now: datetime) -> None:
    rows = models.RepeatableRequest.objects
    old = rows.filter(created_at__lt=now - KEPT).values_list("pk", flat=True)[:_PRUNED]
    beyond = rows.filter(caller=caller).order_by("-created_at").values_list("pk", flat=True)
    rows.filter(pk__in=[*old, *beyond[MAX_KEPT : MAX_KEPT + _PRUNED]]).delete()
