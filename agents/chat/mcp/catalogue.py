"""Tool catalogue of the MCP server: our tools and those of plugins, listed and called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agents.chat.agents.tools import offered_tool_spec
from agents.chat.mcp.tools import AskTool, FetchDocumentTool, ListStoresTool, SearchTool, ask_agent
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import UnknownNameError
from rag.core.plugins import PLUGINS
from rag.core.request_context import use_account
from rag.core.tools import Tool, ToolSpec, call_tool, spec_of
from rag.services.plugins import list_plugins
from rag.services.sources import SourceContext
from rag.services.threads import run_until

CALL_S = 60.0
_OWN: dict[str, type[Any]] = {
    tool.name: tool for tool in (SearchTool, AskTool, ListStoresTool, FetchDocumentTool)
}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as clients see it; ``label`` may be translated."""

    tool: type[Any]
    spec: ToolSpec

    @property
    def label(self) -> Any:
        """Return what people call it."""
        return self.tool.label


def offered_tools() -> dict[str, OfferedTool]:
    """Return the tools by name: ours, then those of agents; what plugins add is among these.

    What a tool of agents lists as ``house_arguments`` is not for a caller to choose.
    """
    found = {name: OfferedTool(tool, spec_of(tool)) for name, tool in _OWN.items()}
    for info in list_plugins(kind="tool").plugins:
        spec = offered_tool_spec(name=info.name)
        found.setdefault(info.name, OfferedTool(PLUGINS.get("tool", info.name), spec))
    return found


async def run_tool(*, name: str, arguments: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return a tool's answer within a minute; ``ask`` takes as long as its agent may.

    Holds no database connection while it waits. Raises UnknownNameError for a tool that is none,
    InvalidInputError for arguments that do not fit, and what the tool raises.
    """
    if name == AskTool.name:
        return await ask_agent(arguments=arguments, scope=scope)
    found = offered_tools()
    if name not in found:
        raise UnknownNameError("tool", name[:100], found)
    shown = found[name].spec.parameters["properties"]
    for key in arguments:
        if key not in shown:
            raise UnknownNameError("option", f"{name}.{key}", shown)
    deadline = Deadline(CALL_S)
    work = partial(_paid, found[name].tool(), arguments, scope, deadline)
    return (await run_until(work, name=name, deadline=deadline)).result()


def _paid(
    tool: Tool, arguments: Mapping[str, Any], scope: Scope, deadline: Deadline
) -> dict[str, Any]:
    with use_account(scope):
        return call_tool(tool, arguments, scope=scope, deadline=deadline, ports=SourceContext())
