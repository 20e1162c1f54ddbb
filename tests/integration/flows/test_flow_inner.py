"""Flows inside of flows, and nodes for each item: one log, one stream, reviews, versions, cycles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.control import rerun_flow
from agents.flows.runs.read import run_summary
from agents.flows.runs.start import RunRequest, arun_flow
from agents.flows.runs.subflows import check_depth
from agents.flows.runs.trace import visit_trace
from agents.flows.runs.worker import run_to_end
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, LimitError
from rag.services.access.api_keys import scope_of
from tests.factories import UserFactory
from tests.integration.flow_world import house as house
from tests.integration.flow_world import resume_flow

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("house")]
INNER = {
    "name": "inner",
    "inputs": {"word": "what is said"},
    "nodes": [
        {"name": "say", "type": "answer", "config": {"text": "{word}, {user_query}"}},
        {"name": "note", "type": "assign", "config": {"set": {"loud": "{word}!"}}},
    ],
    "edges": [{"from": "say", "to": "note"}, {"from": "note", "to": "END"}],
    "entry_node": "say",
}
CALL = {"flow": "inner", "inputs": {"word": "{item}"}, "outputs": {"loud": "loud"}}


def saved(scope: Scope, definition: dict[str, Any]) -> models.Flow:
    version = save_flow_version(files=FlowFiles(json.dumps(definition)), scope=scope)
    activate_version(version=version, scope=scope)
    return version.flow


def outer(name: str, kind: str, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "inputs": {"words": {"type": "list", "default": ["a"]}, "item": {"default": "one"}},
        "nodes": [{"name": "call", "type": kind, "config": config}],
        "edges": [{"from": "call", "to": "END"}],
        "entry_node": "call",
    }


def run_of(flow: models.Flow, scope: Scope, **given: Any) -> models.FlowRun:
    request = RunRequest(flow=flow, scope=scope, message="hello", given=given)
    return async_to_sync(arun_flow)(request=request)


@pytest.fixture
def owner() -> Scope:
    return scope_of(UserFactory())


def test_a_flow_runs_in_a_flow_and_its_nodes_are_seen(owner: Scope) -> None:
    saved(owner, INNER)
    run = run_of(saved(owner, outer("outer", "flow", CALL)), owner)
    assert (run.status, run.answer) == ("done", "one, hello"), run.error
    assert run.state["edges_var"] == {"answer": "one, hello", "loud": "one!"}
    told = run_summary(run=run, scope=owner)
    assert [one["node"] for one in told["nodes"]] == ["call", "call.say", "call.note"]
    tokens = run.events.filter(kind="token").values_list("node", "data__text")
    assert list(tokens) == [("call.say", "one, hello")]
    seen = visit_trace(run=run, scope=owner, node="call.say", visit=1)
    assert seen["outputs"]["response"] == "one, hello" and seen["inputs_missing"]
    again = rerun_flow(run=run, scope=owner, from_node="call.note")
    again = async_to_sync(run_to_end)(run=again)
    assert again.state == run.state


def test_a_flow_runs_for_each_item_and_speaks_to_nobody(owner: Scope) -> None:
    saved(owner, INNER)
    config = {"items": "{words}", "node": {"type": "flow", "config": CALL}, "parallel": 2}
    flow = saved(owner, outer("each", "iteration", config))
    run = run_of(flow, owner, words=["x", "y", "z"])
    assert run.status == "done", run.error
    texts = [(one["loud"], one["text"]) for one in run.state["edges_var"]["results"]]
    assert texts == [("x!", "x, hello"), ("y!", "y, hello"), ("z!", "z, hello")]
    assert not run.events.filter(kind="token").exists() and run.answer == ""
    nodes = set(run.events.filter(kind="node_finished").values_list("node", flat=True))
    assert {"call", "call.1", "call.1.say", "call.3.note"} <= nodes


def test_a_review_inside_stops_the_run_and_it_goes_on_there(owner: Scope) -> None:
    review = {"name": "ask", "type": "human_review", "config": {"message": "{word}?"}}
    nodes = [*INNER["nodes"], review]
    edges = [
        {"from": "say", "to": "note"},
        {"from": "note", "to": "ask"},
        {"from": "ask", "to": "END"},
    ]
    inner = saved(owner, {**INNER, "nodes": nodes, "edges": edges})
    run = run_of(saved(owner, outer("outer", "flow", CALL)), owner)
    assert run.status == "paused", run.error
    assert [(one["node"], one["message"]) for one in run.reviews] == [("call.ask", "one?")]
    # Another version meanwhile: the run goes on in the one that it began.
    saved(owner, INNER)
    assert inner.versions.count() == 2
    run = resume_flow(run=run, scope=owner, decision="approve")
    assert run.status == "done", run.error
    finished = list(run.events.filter(kind="node_finished").values_list("node", flat=True))
    assert finished == ["call.say", "call.note", "call.ask", "call"]


def test_a_flow_that_runs_itself_is_refused_when_saved_and_when_run(owner: Scope) -> None:
    saved(owner, INNER)
    first = saved(owner, outer("first", "flow", {"flow": "inner"}))
    saved(owner, outer("second", "flow", {"flow": "first"}))
    circle = outer("inner", "flow", {"flow": "second"})
    with pytest.raises(InvalidInputError, match="inner → second → first → inner"):
        saved(owner, circle)
    # Made by somebody who got around the check.
    version = models.Flow.objects.get(name="inner").versions.get(is_active=True)
    models.FlowVersion.objects.filter(pk=version.pk).update(yaml=json.dumps(circle))
    run = run_of(first, owner)
    assert run.status == "error"
    assert "first → inner → second → first" in json.dumps(run.error, ensure_ascii=False)


def test_no_more_than_eight_flows_run_in_each_other() -> None:
    check_depth(tuple("abcdefg"), "h")
    with pytest.raises(LimitError, match="More than 8 flows"):
        check_depth(tuple("abcdefgh"), "i")


def test_who_may_not_run_the_inner_flow_runs_neither(owner: Scope) -> None:
    saved(owner, INNER)
    flow = saved(owner, outer("outer", "flow", CALL))
    flow.is_public = True
    flow.save()
    run = run_of(flow, scope_of(UserFactory()))
    assert run.status == "error" and "inner" in json.dumps(run.error)
