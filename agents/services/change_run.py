"""What people do to runs: decide, go on, cancel. In: a run, who asks. Out: the run, changed."""

from __future__ import annotations

import json

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from agents import models
from agents.core.json_state import packed
from agents.services.claim import is_attended
from agents.services.continue_run import continue_run
from agents.services.run_scope import check_may_steer
from agents.services.worker import AT_WORK
from rag.core.access import Scope, may_edit
from rag.core.errors import ConflictError, ForbiddenError, UnknownNameError

_STATUS = models.FlowRun.Status


def decide_review(
    *, run: models.FlowRun, scope: Scope, decision: str, node: str = ""
) -> models.FlowRun:
    """Write a decision and return the run, which anybody may now continue.

    ``node`` may be left out where one review is pending. Raises ForbiddenError for all but the
    flow's editors, ConflictError when nothing is pending, UnknownNameError for another decision.
    """
    if not may_edit(scope, run.version.flow.facts):
        raise ForbiddenError("Only editors of the flow may decide its reviews.")
    with transaction.atomic():
        run = models.FlowRun.objects.select_for_update().get(pk=run.pk)
        reviews = run.reviews if run.status == _STATUS.PAUSED else []
        if not reviews:
            raise ConflictError("No review of this run is pending.")
        known = [one["node"] for one in reviews]
        if not node and len(reviews) > 1:
            raise ConflictError(
                "Several reviews are pending: {known}.", hint="Name one.", known=", ".join(known)
            )
        review = next((one for one in reviews if one["node"] == node or not node), None)
        if review is None:
            raise UnknownNameError("pending review", node, known)
        if decision not in review["decisions"]:
            raise UnknownNameError("decision", decision, review["decisions"])
        decided = {"decision": decision}
        _append(
            run, "decided", review["node"], visit=review["visit"],
            record=json.dumps(packed(decided)), data={**decided, "by": scope.user_id},
        )  # fmt: skip
        run.reviews = [one for one in reviews if one is not review]
        run.status, run.worker, run.seen_at = _STATUS.RUNNING, None, timezone.now()
        run.save(update_fields=["reviews", "status", "worker", "seen_at"])
    return run


def prepare_flow(
    *, run: models.FlowRun, scope: Scope, decision: str = "", node: str = ""
) -> models.FlowRun:
    """Decide where a run waits and return it, to be continued; see ``decide_review``.

    Without a decision: a run that failed, or whose process was killed, goes on.
    """
    if decision or run.status == _STATUS.PAUSED:
        return decide_review(run=run, scope=scope, decision=decision, node=node)
    check_may_steer(run=run, scope=scope)
    return run


def resume_flow(
    *, run: models.FlowRun, scope: Scope, decision: str = "", node: str = ""
) -> models.FlowRun:
    """Do what ``prepare_flow`` does, then work the run off and return it."""
    run = prepare_flow(run=run, scope=scope, decision=decision, node=node)
    return async_to_sync(continue_run)(run=run)


def cancel_flow(*, run: models.FlowRun, scope: Scope) -> models.FlowRun:
    """Return the run, cancelled: here at once, in another process within two seconds.

    Raises NotFoundError for who may not steer it, ConflictError when it has ended.
    """
    check_may_steer(run=run, scope=scope)
    open_ = models.FlowRun.objects.filter(pk=run.pk, status__in=(_STATUS.RUNNING, _STATUS.PAUSED))
    with transaction.atomic():
        # Whoever would claim it at this moment waits, and finds it cancelled.
        models.FlowRun.objects.select_for_update().get(pk=run.pk)
        has_worker = is_attended(run)
        if not open_.update(status=_STATUS.CANCELLED, ended_at=timezone.now(), reviews=[]):
            raise ConflictError("The run has ended already.")
        if not has_worker:
            _append(run, "cancelled")
    worker = AT_WORK.get(run.pk)
    if worker is not None:
        worker.stop(is_cancelled=True)
    run.refresh_from_db()
    return run


def _append(run: models.FlowRun, kind: str, node: str = "", **values: object) -> None:
    seq = (run.events.aggregate(n=Max("seq"))["n"] or 0) + 1
    models.RunEvent.objects.create(run=run, seq=seq, kind=kind, node=node, **values)
