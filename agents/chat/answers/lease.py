"""Lease of an answer: heartbeat, closing, and failing the answers of processes that died.

An abandoned answer is never resumed: a half-written text cannot be continued.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import Error, transaction
from django.db.models import Max, Q
from django.utils import timezone

from agents import models
from agents.core.chat_events import Transcript
from agents.flows.runs.lease import LEASE_S
from rag.core.errors import ProviderError
from rag.services.access import is_live_key

_STATUS = models.Message.Status
log = logging.getLogger(__name__)
_COPIED = ("content", "citations", "sources", "notices")
# Above every number that was published and not stored when the process died.
GAP = 1000


def renew_answer_lease(message: models.Message, key_id: int | None = None) -> str:
    """Renew the lease; return the status, which somebody else may have changed.

    What was asked with a key that lets nobody in any more is stopped.
    A database that cannot be asked changes nothing: only a longer silence loses an answer.
    """
    mine = models.Message.objects.filter(pk=message.pk, worker=message.worker)
    try:
        mine.filter(status=_STATUS.RUNNING).update(seen_at=timezone.now())
        if key_id is not None and not is_live_key(key_id=key_id):
            return _STATUS.STOPPED
        return mine.values_list("status", flat=True).first() or ""
    except Error as error:
        log.warning("an answer gave no sign of life: %s", type(error).__name__)
        return _STATUS.RUNNING


def close_answer(message: models.Message, values: Mapping[str, Any]) -> bool:
    """Write the outcome of an answer and end its lease; return False when the lease was lost."""
    # The session first, as who deletes it does: in two orders they would wait for each other.
    models.Session.objects.filter(pk=message.session_id).update(updated_at=timezone.now())
    mine = models.Message.objects.filter(pk=message.pk, worker=message.worker)
    return bool(mine.update(worker=None, seen_at=None, **values))


def fail_abandoned(*, message_id: int | None = None) -> int:
    """Fail the answers whose lease has expired; return how many.

    What they had written so far is kept with the answer.
    """
    late = timezone.now() - timedelta(seconds=LEASE_S)
    dead = models.Message.objects.filter(status=_STATUS.RUNNING).filter(
        Q(seen_at=None) | Q(seen_at__lt=late)
    )
    if message_id is not None:
        dead = dead.filter(pk=message_id)
    return sum(_end(pk) for pk in dead.values_list("pk", flat=True)[:100])


def _end(message_id: int) -> bool:
    error = ProviderError(
        "The server ended while the answer was being written.", hint="Ask again."
    ).as_dict()
    with transaction.atomic():
        late = timezone.now() - timedelta(seconds=LEASE_S)
        held = models.Message.objects.select_for_update(skip_locked=True).filter(
            Q(seen_at=None) | Q(seen_at__lt=late), pk=message_id, status=_STATUS.RUNNING
        )
        message = held.first()
        if message is None:
            return False
        transcript = Transcript()
        for kind, data in message.events.order_by("seq").values_list("kind", "data"):
            transcript.add(kind, data)
        message.content, message.citations = transcript.text, transcript.citations
        # With what it rests on: words of passages that are hidden later go from it too.
        message.sources, message.notices = transcript.sources, transcript.notices
        message.status, message.error, message.worker = _STATUS.ERROR, error, None
        message.save(update_fields=[*_COPIED, "status", "error", "worker"])
        seq = (message.events.aggregate(n=Max("seq"))["n"] or 0) + GAP
        data = {
            "code": "interrupted",
            "error": error,
            "message": str(message.key),
            "text": transcript.text,
            "citations": transcript.citations,
        }
        models.MessageEvent.objects.create(message=message, seq=seq, kind="error", data=data)
    return True
