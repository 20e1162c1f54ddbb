"""Sub-flow node: runs another flow inside a run, its nodes in the same log as ``NODE.INNER``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop
from pydantic import Field

from agents.core.nodes import NodeRun, Waiting, register_node
from agents.flows.definition.node_configs import NodeOptions, VariableName
from agents.flows.definition.state import filled_text, filled_value, user_query


class SubflowConfig(NodeOptions):
    """``flow`` is the name of a flow that whoever runs this one may run, too: its active version
    when the node is reached. ``message`` and ``inputs`` are what it is told; ``outputs`` gives its
    variables (right) to those of this flow (left), and its answer is under ``result_key``."""

    flow: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")
    message: str = Field(default="", max_length=100_000)
    inputs: dict[str, Any] = Field(default={}, max_length=100)
    outputs: dict[VariableName, str] = Field(default={}, max_length=100)
    result_key: VariableName = "answer"

    def sets(self) -> frozenset[str]:
        """Return the variables that come out of it."""
        return frozenset({self.result_key, *self.outputs})

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {"message": self.message, "inputs": self.inputs}

    def flows(self) -> tuple[str, ...]:
        """Return the flow."""
        return (self.flow,)


@register_node
class SubflowNode:
    """Runs another flow."""

    name = "flow"
    label = gettext_noop("Sub-flow")
    Config = SubflowConfig

    async def run(
        self, state: Mapping[str, Any], config: SubflowConfig, run: NodeRun
    ) -> dict[str, Any] | Waiting:
        """Return the answer as a turn, and what ``outputs`` names; wait where a review waits."""
        message = filled_text(config.message, state) if config.message else user_query(state)
        given = {name: filled_value(one, state) for name, one in config.inputs.items()}
        end = await run.run_flow(config.flow, message, given, state)
        if end is None:
            return Waiting()
        found = {outer: end.variables.get(name) for outer, name in config.outputs.items()}
        answer = end.answer
        return {
            "edges_var": {config.result_key: answer, **found},
            "flow_msgs": [{"role": "assistant", "content": answer}] if answer else [],
        }
