"""Calls of tools that a model writes as JSON. In: its text. Out: the calls, or none."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agents.flows.read_output import find_objects
from rag.core.tools import ToolSpec
from rag.core.types import ToolUse

MAX_CALLS = 16
# What JSON begins with, bare or in a fence.
OPENINGS = ("{", "`")


def written_calls(
    text: str, names: Collection[str], *, is_lenient: bool
) -> tuple[ToolUse, ...] | None:
    """Return the calls of an answer that is nothing else; none of them: the answer may follow.

    None means that it is no call. ``is_lenient`` takes one that stands at the end of other text,
    for models that were asked to write calls; for others that would be a document quoted.
    """
    bare = text.strip()
    if not bare.startswith(OPENINGS) and not (is_lenient and bare.endswith(("}", "`"))):
        return None
    for found in find_objects(bare):
        if found.keys() == {"calls"} and isinstance(found["calls"], list):
            calls = [_call(one, number) for number, one in enumerate(found["calls"], 1)]
            if all(calls):
                return tuple(call for call in calls[:MAX_CALLS] if call)
        if found.get("tool") in names and (call := _call(found, 1)):
            return (call,)
    return None


def calls_form(specs: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the JSON schema of an answer that calls tools."""
    names = [spec.name for spec in specs]
    call = {
        "type": "object",
        "properties": {
            "tool": {"type": "string", "enum": names}, "arguments": {"type": "object"},
        },
        "required": ["tool", "arguments"],
    }  # fmt: skip
    return {
        "type": "object",
        "properties": {"calls": {"type": "array", "items": call}},
        "required": ["calls"],
    }


def told_tools(specs: Sequence[ToolSpec]) -> str:
    """Return one line for each tool, with the schema of its arguments."""
    return "\n".join(
        f"- {spec.name}: {spec.description} {json.dumps(spec.parameters, ensure_ascii=False)}"
        for spec in specs
    )


def _call(found: Any, number: int) -> ToolUse | None:
    # An unknown name is a call all the same: the model is told which ones there are.
    if not isinstance(found, Mapping) or not found.keys() <= {"tool", "arguments"}:
        return None
    name, arguments = found.get("tool"), found.get("arguments", {})
    if not isinstance(name, str) or not name:
        return None
    if not isinstance(arguments, dict):
        return ToolUse(f"call_{number}", name, fault="The arguments are no JSON object.")
    return ToolUse(f"call_{number}", name, arguments)
