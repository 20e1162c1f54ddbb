"""Retention: deletes old sessions, flow runs and event rows, and the words of deleted passages.

Nobody is shown those before they are taken out either; see ``redact_unreadable``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents import models
from agents.chat.history.evidence import chunk_ids_of, redact_unreadable
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope

BATCH = 200
_RUN, _ANSWER = models.FlowRun.Status, models.Message.Status


def purge_sessions(*, older_than_days: float) -> int:
    """Delete sessions in which nothing was said for so long, 0 for never; return how many.

    Messages, events and what was remembered from them go with them.
    """
    if older_than_days <= 0:
        return 0
    late = timezone.now() - timedelta(days=older_than_days)
    old = models.Session.objects.filter(updated_at__lt=late)
    return _in_batches(old.exclude(messages__status=_ANSWER.RUNNING))


def purge_runs(*, older_than_days: float) -> int:
    """Delete runs of flows that ended so long ago, 0 for never; return how many.

    Runs that work or wait for a person stay.
    """
    if older_than_days <= 0:
        return 0
    late = timezone.now() - timedelta(days=older_than_days)
    ended = models.FlowRun.objects.exclude(status__in=(_RUN.RUNNING, _RUN.PAUSED))
    return _in_batches(ended.filter(ended_at__lt=late))


def purge_events(*, older_than_h: float) -> int:
    """Delete the events of answers that ended so long ago; return how many went.

    The answers stay: only nobody can listen to them again word by word.
    """
    late = timezone.now() - timedelta(hours=older_than_h)
    old = models.MessageEvent.objects.filter(message__created_at__lt=late)
    ended = old.exclude(message__status=_ANSWER.RUNNING)
    return int(ended._raw_delete("default"))


def purge_tokens(*, older_than_h: float) -> int:
    """Delete the single words of answers in runs that ended so long ago; return how many went.

    Everything else of a run stays, its answers too: it can be looked at and replayed.
    """
    late = timezone.now() - timedelta(hours=older_than_h)
    # Two days are looked at, so that the task may miss some of its hours.
    ended = models.FlowRun.objects.filter(ended_at__lt=late, ended_at__gte=late - timedelta(days=2))
    tokens = models.RunEvent.objects.filter(run__in=ended.order_by(), kind="token")
    return int(tokens._raw_delete("default"))


def _in_batches(rows: QuerySet[models.Session] | QuerySet[models.FlowRun]) -> int:
    """Delete rows in transactions of a bearable length."""
    n_deleted = 0
    while keys := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        rows.model._default_manager.filter(pk__in=keys).delete()
        n_deleted += len(keys)
    return n_deleted


_WORDS = ("content", "sources", "citations")
_READ = (*_WORDS, "session_id")


def redact_deleted() -> int:
    """Take what deleted passages said out of the answers that rest on them; return how many.

    The events of such an answer go too: nobody can follow it word by word any more.
    """
    n_changed, after = 0, 0
    ended = models.Message.objects.exclude(status=_ANSWER.RUNNING)
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
