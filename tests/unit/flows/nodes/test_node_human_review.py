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
