"""Redaction of stored answers: the text of deleted passages is removed from the rows for good.

Whoever reads an answer is not shown it before that either; see ``redact_unreadable``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Q

from agents import models
from agents.chat.history.evidence import chunk_ids_of, redact_unreadable
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope

BATCH = 200
_WORDS = ("content", "sources", "citations")
_READ = (*_WORDS, "session_id")


def redact_deleted() -> int:
    """Take what deleted passages said out of the answers that rest on them; return how many.

    The events of such an answer go too: nobody can follow it word by word any more.
    """
    n_changed, after = 0, 0
    ended = models.Message.objects.exclude(status=models.Message.Status.RUNNING)
    resting = ended.exclude(Q(sources=[]) & Q(citations=[])).only(*_READ).order_by("pk")
    while batch := list(resting.filter(pk__gt=after)[:BATCH]):
        after = batch[-1].pk
        held = readable_chunks((pk for row in batch for pk in chunk_ids_of(row)), Scope.operator())
        gone = [row for row in batch if not held.issuperset(chunk_ids_of(row))]
        evidence = redact_unreadable(messages=gone, scope=Scope.operator())
        with transaction.atomic():
            for row in gone:
                shown = evidence[row.pk]
                row.content = shown.content
                row.sources = [_without_chunk(one) for one in shown.sources]
                row.citations = [_without_chunk(one) for one in shown.citations]
            models.Message.objects.bulk_update(gone, _WORDS)
            _clear_summaries(gone)
            models.MessageEvent.objects.filter(message__in=gone).delete()
        n_changed += len(gone)
    return n_changed


def _clear_summaries(answers: Sequence[models.Message]) -> None:
    # They may hold the words too, and are made anew from what is left.
    first: dict[int, int] = {}
    for one in answers:
        first[one.session_id] = min(one.pk, first.get(one.session_id, one.pk))
    for session_id, pk in first.items():
        later = models.Message.objects.filter(session_id=session_id, pk__gte=pk)
        later.exclude(summary="").update(summary="")


def _without_chunk(one: Mapping[str, Any]) -> dict[str, Any]:
    # Without its chunk it is not looked for again.
    return {**one, "chunk_id": None} if one.get("is_gone") else dict(one)
