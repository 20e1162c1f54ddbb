"""Retention: deletes what is older than the settings keep it, of both wings.

Sessions, flow runs, event rows, memories; and memories that rest on deleted chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from agents import models
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
    tokens = models.RunEvent.objects.filter(run__in=ended.order_by(), kind__in=("token", "draft"))
    return int(tokens._raw_delete("default"))


def _in_batches(rows: QuerySet[models.Session] | QuerySet[models.FlowRun]) -> int:
    """Delete rows in transactions of a bearable length."""
    n_deleted = 0
    while keys := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        rows.model._default_manager.filter(pk__in=keys).delete()
        n_deleted += len(keys)
    return n_deleted


def purge_memories(*, older_than_days: float) -> int:
    """Delete memories that nobody touched for so long, 0 for never; return how many went."""
    if older_than_days <= 0:
        return 0
    late = timezone.now() - timedelta(days=older_than_days)
    return models.Memory.objects.filter(updated_at__lt=late).delete()[0]


def purge_memories_of(chunk_ids: Sequence[int]) -> int:
    """Delete the memories of answers that rest on deleted chunks; return how many."""
    return models.Memory.objects.filter(chunk_ids__overlap=list(chunk_ids)).delete()[0]


def purge_orphaned_answers() -> int:
    """Delete the answers that rest on chunks which are no longer there; return how many.

    They are not told to anybody before that either.
    """
    dropped, after = 0, 0
    while True:
        rows = models.Memory.objects.filter(pk__gt=after).exclude(chunk_ids=[]).order_by("pk")
        batch = list(rows.values_list("pk", "chunk_ids")[:BATCH])
        if not batch:
            return dropped
        after = batch[-1][0]
        held = readable_chunks((n for _, ids in batch for n in ids), Scope.operator())
        gone = [pk for pk, ids in batch if not held.issuperset(ids)]
        dropped += models.Memory.objects.filter(pk__in=gone).delete()[0]
