"""The human review node: asks with its message filled, and gives on what was decided."""

from __future__ import annotations

import asyncio

from agents.core.nodes import Pause
from agents.flows.definition.node_configs import HumanReviewConfig
from agents.flows.definition.state import initial_state
from agents.flows.nodes.human_review import HumanReviewNode
from tests.unit.flows.test_flow_state import FLOW
from tests.unit.node_world import NotedRun


def test_a_review_asks_with_its_message_filled_and_then_decides() -> None:
    config = HumanReviewConfig(
        message="发布 {risk_level}？{user_query} {x}", decisions=["yes", "no"], result_key="发布"
    )
    state = {**initial_state(FLOW, "草稿"), "edges_var": {"risk_level": "high"}}
    node = HumanReviewNode()
    assert asyncio.run(node.run(state, config, NotedRun())) == Pause(
        "发布 high？草稿 ",
        ("yes", "no"),
        (
            {"name": "risk_level", "value": "high", "set_by": "run", "node": ""},
            {"name": "user_query", "value": "草稿", "set_by": "person", "node": ""},
        ),
    )
    assert asyncio.run(node.run(state, config, NotedRun(decision="no"))) == {
        "edges_var": {"发布": "no"}
    }


def test_a_review_comments_and_gives_back_what_it_edits() -> None:
    config = HumanReviewConfig(decisions=["yes"], editable=["amount", "response_content"])
    turns = [{"role": "assistant", "content": "a draft"}]
    state = {**initial_state(FLOW, "x"), "edges_var": {"amount": 5}, "flow_msgs": turns}
    paused = asyncio.run(HumanReviewNode().run(state, config, NotedRun()))
    assert isinstance(paused, Pause)
    assert paused.editable == {"amount": 5, "response_content": "a draft"}
    run = NotedRun(decision="yes")
    run.comment, run.edited = "less", {"amount": 3, "response_content": "better"}
    assert asyncio.run(HumanReviewNode().run(state, config, run)) == {
        "edges_var": {"review_decision": "yes", "review_comment": "less", "amount": 3},
        "flow_msgs": [{"role": "assistant", "content": "better"}],
    }
