"""Webhooks: events written down with their transaction, sent by jobs, retried with back-off.

Signed as Standard Webhooks has it (id, time and body by HMAC-SHA256). A target gets each event at
least once, in no promised order, and may hang, redirect or send whatever it likes.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from rag import models
from rag.conf import conf
from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.core.sources import FetchRequest
from rag.providers.http.guard import GuardedHttp
from rag.providers.procrastinate_queue import defer

TIMEOUT_S, MAX_REPLY_BYTES = 10.0, 65_536
# Seconds from a failed attempt to the next one, about a day in all; then it is given up.
WAITS_S = (10, 60, 300, 1_800, 7_200, 21_600, 57_600)
# While a target does not answer, its later events wait for no longer.
MAX_HOLD_S = 1_800
# So many of one webhook by one job; the next job has the rest.
_BATCH = 50
_EVENT = models.Webhook.Event
_NOT_ANSWERED = {"not_found": _EVENT.ANSWER_NOT_FOUND, "unavailable": None}


def announce_event(*, event: str, data: Mapping[str, Any]) -> None:
    """Write an event down for each webhook that wants it, and queue its sending."""
    wanted = models.Webhook.objects.filter(is_enabled=True, events__contains=[event])
    for webhook in wanted:
        _write(webhook, event, data)


def announce_answer(*, outcome: str, data: Mapping[str, Any]) -> None:
    """Announce that an answer was given, or that none was found; failures are neither."""
    event = _NOT_ANSWERED.get(outcome, _EVENT.ANSWER_GIVEN)
    if event is not None:
        announce_event(event=event, data={**data, "outcome": outcome})


def send_test_event(*, webhook: models.Webhook) -> None:
    """Queue an event that says nothing."""
    _write(webhook, _EVENT.TEST, {})


def retry_deliveries(*, ids: list[int]) -> int:
    """Let deliveries that have ended without success begin again; return how many."""
    rows = models.WebhookDelivery.objects.filter(pk__in=ids, delivered_at=None)
    with transaction.atomic():
        n_again = rows.update(next_at=timezone.now(), n_attempts=0, error=None)
        for webhook_id in set(rows.values_list("webhook", flat=True)):
            _queue(webhook_id)
    return n_again


def queue_due_deliveries() -> None:
    """Queue the jobs of webhooks with something to send, or to send again."""
    due = models.WebhookDelivery.objects.filter(next_at__lte=timezone.now())
    for webhook_id in set(due.order_by().values_list("webhook", flat=True).distinct()):
        _queue(webhook_id)


def deliver_webhook(*, webhook_id: int) -> None:
    """Send what is due to a webhook, oldest first, until its target does not answer.

    Then all of it waits: who hangs holds a worker for one attempt at a time.
    """
    webhook = models.Webhook.objects.filter(pk=webhook_id).first()
    if webhook is None:
        return
    now = timezone.now()
    due = models.WebhookDelivery.objects.filter(webhook=webhook, next_at__lte=now)
    if not webhook.is_enabled:
        due.update(next_at=None)
        return
    if webhook.held_until is not None and webhook.held_until > now:
        due.update(next_at=webhook.held_until)
        return
    rows = list(due.order_by("next_at", "pk")[:_BATCH])
    for row in rows:
        if not _attempt(webhook, row):
            wait_s = min(MAX_HOLD_S, WAITS_S[min(row.n_attempts, len(WAITS_S)) - 1])
            webhook.held_until = timezone.now() + timedelta(seconds=wait_s)
            webhook.save(update_fields=["held_until"])
            return
    if len(rows) == _BATCH:
        _queue(webhook_id)


def webhook_secret(*, webhook: models.Webhook) -> str:
    """Return the secret that the target checks signatures with; it is stored nowhere."""
    return f"whsec_{base64.b64encode(_secret(webhook)).decode()}"


def purge_deliveries(*, older_than_days: float = 30) -> int:
    """Delete deliveries that were announced so long ago and have ended; return how many."""
    late = timezone.now() - timedelta(days=older_than_days)
    ended = models.WebhookDelivery.objects.filter(created_at__lt=late, next_at=None)
    return ended.delete()[0]


def _write(webhook: models.Webhook, event: str, data: Mapping[str, Any]) -> None:
    with transaction.atomic():
        models.WebhookDelivery.objects.create(
            webhook=webhook, event=event, data=dict(data), next_at=timezone.now()
        )
        _queue(webhook.pk)


def _queue(webhook_id: int) -> None:
    defer("rag.deliver_webhook", lock=f"webhook:{webhook_id}", webhook_id=webhook_id)


def _attempt(webhook: models.Webhook, row: models.WebhookDelivery) -> bool:
    """Send one event and note what came of it; return whether the target is there at all."""
    body = json.dumps(
        {"type": row.event, "timestamp": row.created_at.isoformat(), "data": row.data},
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    request = FetchRequest(
        webhook.url,
        method="POST",
        headers={**_signed(webhook, row, body), "Content-Type": "application/json"},
        body=body,
        max_bytes=MAX_REPLY_BYTES,
        retries=0,
    )
    row.n_attempts += 1
    failure: RAGError | None = None
    try:
        GuardedHttp(conf().fetch_hosts).fetch(request, deadline=Deadline(TIMEOUT_S))
    except RAGError as error:
        failure = error
    now = timezone.now()
    if failure is None:
        row.next_at, row.error, row.delivered_at = None, None, now
    else:
        left = WAITS_S[row.n_attempts - 1 :]
        row.next_at = now + timedelta(seconds=left[0]) if left else None
        row.error = failure.as_dict()
    row.save(update_fields=["n_attempts", "next_at", "error", "delivered_at"])
    # One that refuses this event may well take the next.
    return failure is None or 400 <= int(failure.params.get("status", 0)) < 500


def _signed(webhook: models.Webhook, row: models.WebhookDelivery, body: bytes) -> dict[str, str]:
    at = str(int(timezone.now().timestamp()))
    signed = f"{row.key}.{at}.".encode() + body
    digest = hmac.digest(_secret(webhook), signed, "sha256")
    return {
        "webhook-id": str(row.key),
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _secret(webhook: models.Webhook) -> bytes:
    return salted_hmac("rag.webhook", webhook.key, algorithm="sha256").digest()
