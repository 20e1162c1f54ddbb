"""Control of flow runs by people: decide a review, resume, cancel, rerun from a node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone

from agents import models
from agents.core.state import pack_update, to_storable
from agents.flows.runs.flow_exposure import flow_exposure
from agents.flows.runs.redact import redactor_of
from agents.flows.runs.worker import FlowWorker
from agents.flows.versions.load import compiled_graph
from agents.runtime.outbound import check_exposure
from agents.runtime.scopes import check_may_control, run_scope
from agents.runtime.worker import is_expired
from rag.core.access import Scope, may_edit
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LimitError,
    UnknownNameError,
)

_STATUS = models.FlowRun.Status


@dataclass(frozen=True, slots=True)
class ReviewEdit:
    """What whoever decides says besides: a comment, and values for what may be edited."""

    comment: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


MAX_COMMENT, MAX_EDITED = 4000, 200_000
_NOTHING = ReviewEdit()


def decide_review(
    *,
    run: models.FlowRun,
    scope: Scope,
    decision: str,
    node: str = "",
    edit: ReviewEdit = _NOTHING,
) -> models.FlowRun:
    """Write a decision and return the run, which anybody may now continue.

    ``node`` may be left out where one review is pending. Raises ForbiddenError for all but the
    flow's editors, ConflictError when nothing is pending, UnknownNameError for another decision,
    and for a value that may not be edited.
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
        _check_edit(edit, review)
        more = {"comment": edit.comment, "values": dict(edit.values)}
        decided = {"decision": decision, **{name: one for name, one in more.items() if one}}
        _append(
            run,
            "decided",
            review["node"],
            visit=review["visit"],
            record=json.dumps(pack_update(to_storable(decided))),
            data={**to_storable(decided), "by": scope.user_id},
        )
        run.reviews = [one for one in reviews if one is not review]
        run.status, run.worker, run.seen_at = _STATUS.RUNNING, None, timezone.now()
        run.save(update_fields=["reviews", "status", "worker", "seen_at"])
    return run


def _check_edit(edit: ReviewEdit, review: Mapping[str, Any]) -> None:
    """Raise for what may not be edited, or is of another type than what stands there."""
    before = {one["name"]: one["value"] for one in review.get("editable") or ()}
    for name, value in edit.values.items():
        if name not in before:
            raise UnknownNameError("value to edit", name, before)
        was = before[name]
        if was is not None and json_type(value) != json_type(was):
            raise InvalidInputError(
                "“{name}” is of the type {kind} and stays so.", name=name, kind=json_type(was)
            )
    size = len(json.dumps(dict(edit.values), ensure_ascii=False))
    if len(edit.comment) > MAX_COMMENT or size > MAX_EDITED:
        raise LimitError(
            "A comment has at most {limit} characters, and what is edited {most}.",
            limit=MAX_COMMENT,
            most=MAX_EDITED,
        )


def json_type(value: Any) -> str:
    """Return what JSON calls the type of a value."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "object" if isinstance(value, dict) else "null")


def prepare_flow(
    *,
    run: models.FlowRun,
    scope: Scope,
    decision: str = "",
    node: str = "",
    edit: ReviewEdit = _NOTHING,
) -> models.FlowRun:
    """Decide where a run waits and return it, to be continued; see ``decide_review``.

    Without a decision: a run that failed, or whose process was killed, goes on.
    """
    if decision or run.status == _STATUS.PAUSED:
        return decide_review(run=run, scope=scope, decision=decision, node=node, edit=edit)
    check_may_control(run=run, scope=scope)
    return run


def cancel_flow(*, run: models.FlowRun, scope: Scope) -> models.FlowRun:
    """Return the run, cancelled: here at once, in another process within two seconds.

    Raises NotFoundError for who may not steer it, ConflictError when it has ended.
    """
    check_may_control(run=run, scope=scope)
    open_ = models.FlowRun.objects.filter(pk=run.pk, status__in=(_STATUS.RUNNING, _STATUS.PAUSED))
    with transaction.atomic():
        # Whoever would claim it at this moment waits, and finds it cancelled.
        models.FlowRun.objects.select_for_update().get(pk=run.pk)
        at_work = open_.filter(status=_STATUS.RUNNING)
        has_worker = at_work.exclude(Q(worker=None) | is_expired()).exists()
        if not open_.update(status=_STATUS.CANCELLED, ended_at=timezone.now(), reviews=[]):
            raise ConflictError("The run has ended already.")
        if not has_worker:
            _append(run, "cancelled")
    FlowWorker.stop_local(run.pk)
    run.refresh_from_db()
    return run


def _append(run: models.FlowRun, kind: str, node: str = "", **values: object) -> None:
    seq = (run.events.aggregate(n=Max("seq"))["n"] or 0) + 1
    models.RunEvent.objects.create(run=run, seq=seq, kind=kind, node=node, **values)


# What of a finished visit a replay begins with.
_COPIED = (
    "node_started",
    "model_answer",
    "rag_results",
    "passages",
    "tool",
    "node_finished",
    "route",
    "decided",
    "subflow",
)


def rerun_flow(
    *, run: models.FlowRun, scope: Scope, from_node: str, visit: int = 1, answers: str = "fresh"
) -> models.FlowRun:
    """Return a new run, to be continued, that has done what ``run`` had before ``from_node``.

    Before its first visit, or the one that ``visit`` says.

    ``answers`` recorded: models are not asked again where ``run`` has their answer, and reviews
    not decided again. The new run acts for the user of the old one, on the budget of who asks.
    """
    check_may_control(run=run, scope=scope)
    if answers not in ("fresh", "recorded"):
        raise UnknownNameError("kind of answers", answers, ("fresh", "recorded"))
    begun = run.events.filter(kind="node_started", node=from_node, visit=visit)
    first = begun.order_by("seq").first()
    if first is None:
        known = run.events.filter(kind="node_started").values_list("node", flat=True)
        raise UnknownNameError("node of the run", from_node, set(known))
    _check_replay(run)
    rows = list(run.events.filter(seq__lt=first.seq, kind__in=_COPIED).order_by("seq"))
    gone = redactor_of(run=run)
    done = {(row.node, row.visit) for row in rows if row.kind == "node_finished"}
    with transaction.atomic():
        replay = models.FlowRun.objects.create(
            version=run.version,
            user=run.user,
            is_by_operator=run.is_by_operator,
            start=run.start,
            model=run.model,
            replay_of=run,
            has_recorded_answers=answers == "recorded",
            seen_at=timezone.now(),
            key_id=scope.key_id,
            chunk_ids=run.chunk_ids,
        )
        kept = [row for row in rows if (row.node, row.visit) in done or row.kind == "subflow"]
        for number, row in enumerate(kept, 1):
            row.pk, row.run, row.seq = None, replay, number
            row.data = gone.event(row.kind, row.data)
            row.record = row.record and gone.record(row.kind, row.record)
            if row.trace is not None:
                trace = gone.trace(json.loads(row.trace), run.version.prompts)
                row.trace = json.dumps(trace, ensure_ascii=False)
        models.RunEvent.objects.bulk_create(kept)
    return replay


def _check_replay(run: models.FlowRun) -> None:
    # With the rights of its user, whoever runs it again.
    flow, scope = run.version.flow, run_scope(run=run)
    definition = compiled_graph(version=run.version).flow
    exposure = flow_exposure(flow=flow, definition=definition, scope=scope, chunk_ids=run.chunk_ids)
    check_exposure(subject=flow, exposure=exposure)
