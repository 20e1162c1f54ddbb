"""Lease of an answer: closing it, and failing the answers of processes that died.

An abandoned answer is never resumed: a half-written text cannot be continued.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from agents import models
from agents.core.chat_events import Transcript
from agents.runtime.lease import abandoned, close
from rag.core.errors import ProviderError

_STATUS = models.Message.Status
_COPIED = ("content", "citations", "sources", "notices")
# Above every number that was published and not stored when the process died.
GAP = 1000


def close_answer(message: models.Message, values: Mapping[str, Any]) -> bool:
    """Write the outcome of an answer and end its lease; return False when the lease was lost."""
    # The session first, as who deletes it does: in two orders they would wait for each other.
    models.Session.objects.filter(pk=message.session_id).update(updated_at=timezone.now())
    return close(message, values)


def fail_abandoned(*, message_id: int | None = None) -> int:
    """Fail the answers whose lease has expired; return how many.

    What they had written so far is kept with the answer.
    """
    dead = abandoned(models.Message)
    if message_id is not None:
        dead = dead.filter(pk=message_id)
    return sum(_end(pk) for pk in dead.values_list("pk", flat=True)[:100])


def _end(message_id: int) -> bool:
    error = ProviderError(
        "The server ended while the answer was being written.", hint="Ask again."
    ).as_dict()
    with transaction.atomic():
        held = abandoned(models.Message).select_for_update(skip_locked=True)
        message = held.filter(pk=message_id).first()
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
