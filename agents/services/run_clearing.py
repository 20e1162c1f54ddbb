"""Words of runs that nobody follows any more. In: an age. Out: rows gone."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from agents import models


def clear_tokens(*, older_than_h: float) -> int:
    """Delete the single words of answers in runs that ended so long ago; return how many went.

    Everything else of a run stays, its answers too: it can be looked at and replayed.
    """
    late = timezone.now() - timedelta(hours=older_than_h)
    # Two days are looked at, so that the task may miss some of its hours.
    ended = models.FlowRun.objects.filter(ended_at__lt=late, ended_at__gte=late - timedelta(days=2))
    tokens = models.RunEvent.objects.filter(run__in=ended.order_by(), kind="token")
    return int(tokens._raw_delete("default"))
