"""Human review node: pauses the run until somebody decides, then yields the decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.nodes import NodeRun, Pause, register_node
from agents.core.prompts import fill_prompt, placeholders
from agents.flows.definition.node_configs import HumanReviewConfig
from agents.flows.definition.state import last_turn, prompt_values


@register_node
class HumanReviewNode:
    """Pauses a run until somebody decides."""

    name = "human_review"
    label = gettext_noop("Human review")
    Config = HumanReviewConfig

    async def run(
        self, state: Mapping[str, Any], config: HumanReviewConfig, run: NodeRun
    ) -> dict[str, Any] | Pause:
        """Return the pause with its message filled, or what was decided, said and edited."""
        if run.decision is None:
            values = prompt_values(state)
            message = fill_prompt(config.message, values, missing="")
            shown = [name for name in placeholders(config.message) if name in values]
            told = ({"name": name, **_origin(name, values[name], state, run)} for name in shown)
            now = {**values, TEXT: last_turn(state)}
            editable = {name: now.get(name) for name in config.editable}
            return Pause(message, tuple(config.decisions), tuple(told), editable)
        edited = {name: one for name, one in run.edited.items() if name != TEXT}
        decided: dict[str, Any] = {config.result_key: run.decision}
        if run.comment or (state.get("edges_var") or {}).get(config.comment_key):
            # That of an earlier visit says nothing of this one.
            decided[config.comment_key] = run.comment or None
        turn = {"role": "assistant", "content": str(run.edited.get(TEXT) or "")}
        turns = {"flow_msgs": [turn]} if TEXT in run.edited else {}
        return {"edges_var": {**decided, **edited}, **turns}


# What names the last text among the values that may be edited.
TEXT = "response_content"
MAX_VALUE = 200


def _origin(name: str, value: Any, state: Mapping[str, Any], run: NodeRun) -> dict[str, Any]:
    """Return a value, its beginning where it is a long text, and who set it.

    ``set_by`` node (``node`` names it), person (an input or the message), or run.
    """
    short = value[:MAX_VALUE] if isinstance(value, str) else value
    nodes = [node for node, output in run.outputs().items() if name in output]
    if nodes:
        return {"value": short, "set_by": "node", "node": nodes[-1]}
    is_given = name == "user_query" or name in (state.get("prompt_vars") or {})
    return {"value": short, "set_by": "person" if is_given else "run", "node": ""}
