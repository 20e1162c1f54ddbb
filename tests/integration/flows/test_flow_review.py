"""Runs that wait for a person: paused, decided, gone on with; by whom, and by whom not."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.control import ReviewEdit, cancel_flow, decide_review
from agents.flows.runs.start import RunRequest
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LimitError,
    UnknownNameError,
)
from rag.services.access.api_keys import scope_of
from tests.factories import UserFactory
from tests.integration.flow_world import house as house
from tests.integration.flow_world import resume_flow, run_flow

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("house")]
FLOW = """\
name: reviewed
nodes:
  - {name: draft, type: agent, config: {prompt: draft.md}}
  - name: review
    type: human_review
    config: {message: "发布吗？{user_query}", decisions: [approve, reject, revise]}
  - {name: publish, type: agent, config: {prompt: publish.md}}
edges:
  - {from: draft, to: review}
  - {from: review, to: publish, condition: review_decision == "approve"}
  - {from: review, to: draft, condition: review_decision == "revise"}
  - {from: review, to: END, condition: default}
  - {from: publish, to: END}
entry_node: draft
max_steps: 9
"""
PROMPTS = {"draft.md": "Write a draft.", "publish.md": "Write the final text."}
SCRIPT = """
answers:
  - {contains: Write a draft, answer: the draft}
  - {contains: Write the final text, answer: the text}
"""


@pytest.fixture
def owner() -> Scope:
    return scope_of(UserFactory())


@pytest.fixture
def flow(owner: Scope) -> models.Flow:
    version = save_flow_version(files=FlowFiles(FLOW, PROMPTS), scope=owner)
    activate_version(version=version, scope=owner)
    return version.flow


@pytest.fixture
def paused(flow: models.Flow, owner: Scope, tmp_path: Any) -> models.FlowRun:
    script = tmp_path / "s.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    request = RunRequest(flow=flow, scope=owner, message="the news", model=f"scripted:{script}")
    return run_flow(request=request)


def kinds(run: models.FlowRun) -> list[str]:
    return list(run.events.order_by("seq").values_list("kind", flat=True))


def nodes(run: models.FlowRun) -> list[str]:
    started = run.events.filter(kind="node_started").order_by("seq")
    return list(started.values_list("node", flat=True))


def test_a_run_pauses_and_says_what_is_to_be_decided(paused: models.FlowRun) -> None:
    assert (paused.status, paused.ended_at, paused.worker) == ("paused", None, None)
    assert paused.reviews == [
        {
            "node": "review",
            "visit": 1,
            "message": "发布吗？the news",
            "decisions": ["approve", "reject", "revise"],
            "values": [{"name": "user_query", "value": "the news", "set_by": "person", "node": ""}],
        }
    ]
    assert paused.state["flow_msgs"] == [{"role": "assistant", "content": "the draft"}]
    assert kinds(paused)[-1] == "paused"


def test_a_decision_leads_on_and_nothing_is_done_twice(
    paused: models.FlowRun, owner: Scope
) -> None:
    done = resume_flow(run=paused, scope=owner, decision="approve")
    assert (done.status, done.reviews, done.n_steps) == ("done", [], 3)
    assert nodes(done) == ["draft", "review", "review", "publish"]
    assert kinds(done).count("model_answer") == 2
    assert done.state["edges_var"] == {"review_decision": "approve"}
    decided = done.events.get(kind="decided")
    assert decided.data == {"decision": "approve", "by": owner.user_id}


def test_a_cycle_asks_again(paused: models.FlowRun, owner: Scope) -> None:
    again = resume_flow(run=paused, scope=owner, decision="revise")
    assert (again.status, again.reviews[0]["visit"]) == ("paused", 2)
    done = resume_flow(run=again, scope=owner, decision="reject")
    assert (done.status, done.n_steps) == ("done", 4)
    assert nodes(done) == ["draft", "review", "review", "draft", "review", "review"]
    assert len(done.state["flow_msgs"]) == 2


def test_only_editors_decide(paused: models.FlowRun) -> None:
    paused.version.flow.is_public = True
    paused.version.flow.save()
    stranger = scope_of(UserFactory())
    with pytest.raises(ForbiddenError):
        decide_review(run=paused, scope=stranger, decision="approve")
    assert decide_review(run=paused, scope=Scope.operator(), decision="approve").status == "running"


def test_a_decision_must_be_one_of_those_offered(paused: models.FlowRun, owner: Scope) -> None:
    with pytest.raises(UnknownNameError, match="Known: approve, reject, revise"):
        resume_flow(run=paused, scope=owner, decision="maybe")
    with pytest.raises(UnknownNameError, match="pending review “draft”. Known: review"):
        resume_flow(run=paused, scope=owner, decision="approve", node="draft")
    paused.refresh_from_db()
    assert paused.status == "paused"


def test_a_review_is_decided_once(paused: models.FlowRun, owner: Scope) -> None:
    resume_flow(run=paused, scope=owner, decision="reject")
    with pytest.raises(ConflictError, match="No review of this run is pending"):
        resume_flow(run=paused, scope=owner, decision="approve")


def test_a_paused_run_can_be_cancelled(paused: models.FlowRun, owner: Scope) -> None:
    run = cancel_flow(run=paused, scope=owner)
    assert (run.status, run.reviews, kinds(run)[-1]) == ("cancelled", [], "cancelled")
    with pytest.raises(ConflictError):
        cancel_flow(run=run, scope=owner)
    with pytest.raises(ConflictError):
        resume_flow(run=run, scope=owner, decision="approve")


def test_who_cancels_holds_the_run_before_looking_at_it(
    paused: models.FlowRun, owner: Scope
) -> None:
    # Else another process claims it in between, and both write the next event.
    with CaptureQueriesContext(connection) as asked:
        cancel_flow(run=paused, scope=owner)
    said = [one["sql"] for one in asked]
    held = next(number for number, sql in enumerate(said) if sql.endswith("FOR UPDATE"))
    assert not any('"agents_flowrun"."seen_at" <' in sql for sql in said[:held])
    assert any('"agents_flowrun"."seen_at" <' in sql for sql in said[held:])


def test_who_decides_comments_and_edits_what_is_offered(owner: Scope, tmp_path: Any) -> None:
    nodes = (
        "  - {name: set, type: assign, config: {set: {amount: 240, note: x}}}\n"
        "  - name: review\n    type: human_review\n"
        "    config: {message: Pay?, decisions: [pay], editable: [amount]}\n"
        '  - {name: say, type: answer, config: {text: "{amount}: {review_comment}"}}\n'
    )
    text = (
        f"name: paid\nnodes:\n{nodes}edges:\n  - {{from: set, to: review}}\n"
        "  - {from: review, to: say}\n  - {from: say, to: END}\nentry_node: set\n"
    )
    version = save_flow_version(files=FlowFiles(text), scope=owner)
    activate_version(version=version, scope=owner)
    run = run_flow(request=RunRequest(flow=version.flow, scope=owner, message="x"))
    assert run.reviews[0]["editable"] == [{"name": "amount", "value": 240}]
    for edit, error in (
        (ReviewEdit(values={"note": "y"}), UnknownNameError),
        (ReviewEdit(values={"amount": "much"}), InvalidInputError),
        (ReviewEdit(comment="x" * 5000), LimitError),
    ):
        with pytest.raises(error):
            decide_review(run=run, scope=owner, decision="pay", edit=edit)
    edit = ReviewEdit("half of it", {"amount": 120})
    run = resume_flow(run=run, scope=owner, decision="pay", edit=edit)
    assert (run.status, run.answer) == ("done", "120: half of it"), run.error
