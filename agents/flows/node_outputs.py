"""What nodes gave, as templates of a builder's nodes look it up. In: updates. Out: outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agents.core.state import FIELDS, Replace
from agents.flows.state_values import user_query

START = "start"
# What a builder calls the node where a person says something.
START_LABEL = "用户输入"
META = "_meta"


def outputs_of(
    updates: Iterable[tuple[str, Mapping[str, Any]]],
) -> dict[str, Mapping[str, Any]]:
    """Return the last output of each node, in the order in which they ran."""
    found: dict[str, Mapping[str, Any]] = {}
    for node, update in updates:
        # A node that ran again is the latest one.
        found.pop(node, None)
        found[node] = _output(node, update)
    return found


def template_context(
    state: Mapping[str, Any], outputs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what ``{{node.field}}`` is looked up in.

    First comes ``start`` (also called 用户输入) with ``user_input``, ``user_query`` and the flow's
    inputs, then each node by its name; labels of nodes count too.
    """
    said = {"user_input": user_query(state), "user_query": user_query(state)}
    given = {
        name: one for name, one in (state.get("prompt_vars") or {}).items() if name not in outputs
    }
    labels = {node: one["label"] for node, one in outputs.items() if one.get("label")}
    return {
        START: {**given, **said}, **outputs, META: {"nodeLabels": {START: START_LABEL, **labels}}
    }  # fmt: skip


def _output(node: str, update: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: one.value if isinstance(one, Replace) else one for key, one in update.items()}
    turns = plain.get("flow_msgs") or []
    text = turns[-1]["content"] if turns else ""
    own = {key: one for key, one in plain.items() if key not in FIELDS or key == "rag_results"}
    own |= plain.get("edges_var") or {}
    if text:
        own |= {"output": text, "response_content": text}
    return {**own, **((plain.get("prompt_vars") or {}).get(node) or {})}
