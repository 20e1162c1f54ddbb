"""Data sources of an agent as tools that its model may call.

A source runs with the rights of the person who asks, with options that the agent's editor chose: a
model chooses the question alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.core.agent_config import AgentConfig
from agents.core.react import ToolResult
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.plugins import PLUGINS
from rag.core.sources import SourceQuery
from rag.core.tools import ToolSpec
from rag.services.plugins import make_plugin
from rag.services.search import filter_by_threshold
from rag.services.sources import SourceCall, SourceContext, ask_source

MAX_SOURCES = 20
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_OWN = ("type", "description", "timeout_s", "retries")
_PARAMETERS = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "A question or words, understandable alone."}
    },
    "required": ["query"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class AgentSource:
    """A source by the name that the model calls it, and what the model is told of it."""

    call: SourceCall
    description: str


def agent_sources(*, config: AgentConfig) -> dict[str, AgentSource]:
    """Return the sources of a config; raise for one that could never be asked.

    UnknownNameError lists the plugins or options there are; InvalidInputError says what is wrong.
    """
    if len(config.sources) > MAX_SOURCES:
        raise InvalidInputError(
            "There are {n} data sources.",
            hint="Allowed: {limit}.",
            n=len(config.sources),
            limit=MAX_SOURCES,
        )
    return {name: _source(name, values, config) for name, values in config.sources.items()}


def source_tool_spec(*, source: AgentSource) -> ToolSpec:
    """Return what a model is told of a source."""
    return ToolSpec(source.call.name, source.description, _PARAMETERS)


def call_source_tool(
    *, source: AgentSource, arguments: Mapping[str, Any], scope: Scope, deadline: Deadline
) -> ToolResult:
    """Return what a source has on a model's question; raise RAGError."""
    query = arguments.get("query")
    if not isinstance(query, str) or not query.strip() or len(arguments) != 1:
        raise InvalidInputError(
            "The tool {name} takes a text as “query” and nothing else.", name=source.call.name
        )
    asked = SourceQuery(query, scope, deadline, SourceContext(), {"user_query": query})
    outcome = ask_source(call=source.call, query=asked)
    if outcome.error:
        raise outcome.error
    notes = {"notes": list(outcome.notes)} if outcome.notes else {}
    if not outcome.hits:
        return ToolResult({**notes, "results": []})
    judged = filter_by_threshold(query=query, hits=outcome.hits)
    return ToolResult({**notes, "confidence": judged.confidence}, outcome.hits)


def _source(name: str, values: Any, config: AgentConfig) -> AgentSource:
    if not _NAME.fullmatch(name) or name in config.tools:
        raise InvalidInputError(
            "A data source cannot be called “{name}”.",
            hint="Lower-case letters, digits and _, at most 40, and no tool of the agent.",
            name=name,
        )
    if not isinstance(values, Mapping):
        raise InvalidInputError("The data source “{name}” is no object.", name=name)
    description, plugin = values.get("description"), values.get("type")
    if not isinstance(description, str) or not description.strip():
        raise InvalidInputError(
            "The data source “{name}” has no description.",
            hint="Say for the model what it holds and when to ask it.",
            name=name,
        )
    PLUGINS.get("source", str(plugin))
    options = {key: value for key, value in values.items() if key not in _OWN}
    make_plugin(kind="source", name=str(plugin), options=options)
    timeout_s, retries = values.get("timeout_s", config.tool_timeout_s), values.get("retries", 0)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)):
        raise InvalidInputError("timeout_s of the source “{name}” is no number.", name=name)
    if isinstance(retries, bool) or not isinstance(retries, int):
        raise InvalidInputError("retries of the source “{name}” is no whole number.", name=name)
    call = SourceCall(
        name=name, plugin=str(plugin), options=options, timeout_s=timeout_s, retries=retries
    )
    return AgentSource(call, description.strip())
