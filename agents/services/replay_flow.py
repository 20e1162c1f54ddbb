"""A past run once more from one of its nodes. In: a run, a node. Out: a new run."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from agents import models
from agents.services.run_scope import check_may_steer
from rag.core.access import Scope
from rag.core.errors import UnknownNameError

# What of a finished visit a replay begins with.
_COPIED = (
    "node_started", "model_answer", "rag_results", "tool", "node_finished", "route", "decided",
)  # fmt: skip


def replay_flow(
    *, run: models.FlowRun, scope: Scope, from_node: str, answers: str = "fresh"
) -> models.FlowRun:
    """Return a new run, to be continued, that has done what ``run`` had before ``from_node``.

    ``answers`` recorded: models are not asked again where ``run`` has their answer, and reviews
    not decided again. The new run acts for the user of the old one, on the budget of who asks.
    """
    check_may_steer(run=run, scope=scope)
    if answers not in ("fresh", "recorded"):
        raise UnknownNameError("kind of answers", answers, ("fresh", "recorded"))
    first = run.events.filter(kind="node_started", node=from_node).order_by("seq").first()
    if first is None:
        known = run.events.filter(kind="node_started").values_list("node", flat=True)
        raise UnknownNameError("node of the run", from_node, set(known))
    rows = list(run.events.filter(seq__lt=first.seq, kind__in=_COPIED).order_by("seq"))
    done = {(row.node, row.visit) for row in rows if row.kind == "node_finished"}
    with transaction.atomic():
        replay = models.FlowRun.objects.create(
            version=run.version, user=run.user, is_by_operator=run.is_by_operator, start=run.start,
            model=run.model, replay_of=run, has_recorded_answers=answers == "recorded",
            seen_at=timezone.now(), key_id=scope.key_id,
        )  # fmt: skip
        kept = [row for row in rows if (row.node, row.visit) in done]
        for number, row in enumerate(kept, 1):
            row.pk, row.run, row.seq = None, replay, number
        models.RunEvent.objects.bulk_create(kept)
    return replay
