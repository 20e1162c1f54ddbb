"""Tool plugins as an agent's model sees and calls them. In: a name. Out: its spec, its answer.

What a plugin lists as ``house_arguments`` is not for a model to choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from agents.core.react import ToolResult
from agents.services.react_result import cited_result
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.plugins import PLUGINS
from rag.core.tools import ToolSpec, call_tool, spec_of
from rag.services.plugins import make_plugin
from rag.services.source_ports import HousePorts


def offered_tool(*, name: str) -> ToolSpec:
    """Return what a model is told of a tool; raise UnknownNameError."""
    tool = PLUGINS.get("tool", name)
    spec, hidden = spec_of(tool), getattr(tool, "house_arguments", ())
    properties = spec.parameters["properties"].items()
    shown = {key: shape for key, shape in properties if key not in hidden}
    return ToolSpec(spec.name, spec.description, {**spec.parameters, "properties": shown})


def call_plugin(
    *, name: str, arguments: Mapping[str, object], model: str, scope: Scope, deadline: Deadline
) -> ToolResult:
    """Return what came of a model's call; raise what the tool raises.

    ``model`` is the agent's own, for tools that ask one; empty: the configured one.
    """
    tool = make_plugin(kind="tool", name=name)
    hidden = getattr(tool, "house_arguments", ())
    given = {key: value for key, value in arguments.items() if key not in hidden}
    given |= {"model": model} if model and "model" in hidden else {}
    call = partial(call_tool, scope=scope, deadline=deadline, ports=HousePorts())
    return cited_result(call(tool, given))
