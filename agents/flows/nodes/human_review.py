"""Human review node: pauses the run until somebody decides, then yields the decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.nodes import NodeRun, Pause, register_node
from agents.core.prompts import fill_prompt
from agents.flows.definition.node_configs import HumanReviewConfig
from agents.flows.definition.state import prompt_values


@register_node
class HumanReviewNode:
    """Pauses a run until somebody decides."""

    name = "human_review"
    label = gettext_noop("Human review")
    Config = HumanReviewConfig

    async def run(
        self, state: Mapping[str, Any], config: HumanReviewConfig, run: NodeRun
    ) -> dict[str, Any] | Pause:
        """Return the pause with its message filled, or the decision under ``result_key``."""
        if run.decision is None:
            message = fill_prompt(config.message, prompt_values(state))
            return Pause(message, tuple(config.decisions))
        return {"edges_var": {config.result_key: run.decision}}
