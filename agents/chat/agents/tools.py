"""Tools of a ReAct agent, plugins and data sources: specs offered to the model, calls, results.

What a plugin lists as ``house_arguments`` is not for a model to choose. A data source runs with the
rights of the person who asks, with options that the agent's editor chose: a model chooses the
question alone.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from pydantic import ValidationError

from agents import models
from agents.core.agent_config import AgentConfig
from agents.core.react import ToolResult
from agents.core.source_configs import McpServerConfig
from agents.core.tool_calls import tool_error
from agents.runtime.mcp_client import call_mcp_tool, mcp_tools
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, RAGError, UnknownNameError
from rag.core.hits import Hit
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatModel
from rag.core.sources import SourceQuery
from rag.core.tools import ToolSpec, call_tool, spec_of
from rag.services.plugins import make_plugin
from rag.services.search import filter_by_threshold
from rag.services.sources import SourceCall, SourceContext, ask_source
from rag.services.threads import run_external, run_until

log = logging.getLogger(__name__)


def tool_result(answer: Mapping[str, Any]) -> ToolResult:
    """Return a tool's answer with its ``results`` as hits, where these are passages with texts."""
    results = answer.get("results")
    is_cited = isinstance(results, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("content"), str) for one in results
    )
    if not results or not is_cited:
        return ToolResult(answer)
    rest = {key: value for key, value in answer.items() if key != "results"}
    return ToolResult(rest, [Hit.from_dict(one) for one in results])


def offered_tool_spec(*, name: str) -> ToolSpec:
    """Return what a model is told of a tool; raise UnknownNameError."""
    tool = PLUGINS.get("tool", name)
    spec, hidden = spec_of(tool), getattr(tool, "house_arguments", ())
    properties = spec.parameters["properties"].items()
    shown = {key: shape for key, shape in properties if key not in hidden}
    return ToolSpec(spec.name, spec.description, {**spec.parameters, "properties": shown})


def run_tool_plugin(
    *, name: str, arguments: Mapping[str, object], model: str, scope: Scope, deadline: Deadline
) -> ToolResult:
    """Return what came of a model's call; raise what the tool raises.

    ``model`` is the agent's own, for tools that ask one; empty: the configured one.
    """
    tool = make_plugin(kind="tool", name=name)
    hidden = getattr(tool, "house_arguments", ())
    given = {key: value for key, value in arguments.items() if key not in hidden}
    given |= {"model": model} if model and "model" in hidden else {}
    call = partial(call_tool, scope=scope, deadline=deadline, ports=SourceContext())
    return tool_result(call(tool, given))


MAX_SOURCES, MAX_SERVERS = 20, 10


def agent_servers(*, config: AgentConfig) -> list[McpServerConfig]:
    """Return the MCP servers of a config; raise InvalidInputError for one that cannot be asked."""
    if len(config.mcp_servers) > MAX_SERVERS:
        raise InvalidInputError("An agent has at most {limit} MCP servers.", limit=MAX_SERVERS)
    servers = []
    for name, given in config.mcp_servers.items():
        try:
            servers.append(McpServerConfig.model_validate({**dict(given), "name": name}))
        except (ValidationError, TypeError, ValueError) as error:
            reason = "it is no object"
            if isinstance(error, ValidationError):
                first = error.errors(include_url=False)[0]
                reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise InvalidInputError(
                "The MCP server “{name}” is wrong: {reason}",
                hint="It has mcp (its address) and tools, and perhaps secret and timeout.",
                name=name,
                reason=reason,
            ) from None
    return servers


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


MEMORY_TOOL, SEARCH = "memory_retrieve", "vector_retrieve"
# Tools that work on what the stores hold, and know nothing else.
STORE_TOOLS = frozenset({SEARCH, "grade", "rerank", "query_rewrite"})
# How each model's server turned out to take calls, found by its refusals.
_learnt: dict[str, str] = {}


class AgentTools:
    """``agents.core.react.Tools``; made for one answer. ``recalled`` are keys of memories."""

    def __init__(
        self,
        agent: models.Agent,
        chat: ChatModel,
        scope: Scope,
        stores: Sequence[Any],
        person: Scope,
    ) -> None:
        self._config = config = agent.settings
        self._model, self._chat, self._scope, self._person = agent.model, chat, scope, person
        self.deadline = Deadline(config.run_timeout_s)
        self.recalled: set[str] = set()
        self._narrow = replace(scope, only_store_ids=frozenset(store.pk for store in stores))
        self.searches_stores = SEARCH in config.tools and bool(stores)
        has_others = bool(config.sources or config.mcp_servers)
        self.knows_more = has_others or not STORE_TOOLS.issuperset(config.tools)
        self._servers: dict[str, McpServerConfig] = {}
        self._offered: list[ToolSpec] = []

    async def load(self) -> list[RAGError]:
        """Ask the MCP servers what their tools are; return why some are not offered."""
        faults: list[RAGError] = []
        for server in agent_servers(config=self._config):
            deadline = Deadline(min(self._config.tool_timeout_s, self.deadline.remaining_s))
            try:
                specs = await run_external(mcp_tools, server=server, deadline=deadline)
            except RAGError as error:
                log.warning("the tools of a server are not offered: %s", error)
                faults.append(error)
                continue
            self._offered += specs
            self._servers |= {spec.name: server for spec in specs}
        return faults

    @cached_property
    def specs(self) -> Sequence[ToolSpec]:
        """Return what the model is told of its tools; raise UnknownNameError for one not there."""
        tools = [offered_tool_spec(name=name) for name in dict.fromkeys(self._config.tools)]
        sources = [source_tool_spec(source=one) for one in self._sources.values()]
        return [*tools, *sources, *self._offered]

    @cached_property
    def _sources(self) -> dict[str, AgentSource]:
        return agent_sources(config=self._config)

    @property
    def calling(self) -> str:
        """Return how the model calls tools: as the config says, else as its server took it."""
        calling, learnt = self._config.tool_calling, _learnt.get(self._chat.id, "")
        if calling == "native":
            return "native"
        if calling == "auto" and getattr(self._chat, "has_tools", False):
            return learnt or "native"
        return learnt if learnt == "text" else "form"

    def learn(self, calling: str) -> None:
        """Remember for this process that the model's server took this way."""
        if calling != self.calling:
            log.info("%s calls tools by %s from now on", self._chat.id, calling)
            _learnt[self._chat.id] = calling

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return what came of a call within its time; a plugin's fault is a result, too."""
        started = time.perf_counter()
        deadline = Deadline(self._time_of(name))
        try:
            work = self._work(name, arguments, deadline)
            done = await run_until(work, name=name, deadline=deadline)
            fault = done.exception()
            result = ToolResult(error=tool_error(name, fault)) if fault else done.result()
        except RAGError as error:
            result = ToolResult(error=error)
        if name == MEMORY_TOOL:
            self.recalled |= {one["id"] for one in result.answer.get("memories", ())}
        return replace(result, duration_ms=(time.perf_counter() - started) * 1e3)

    def _time_of(self, name: str) -> float:
        source, server = self._sources.get(name), self._servers.get(name)
        if server is not None:
            return min(server.timeout, self.deadline.remaining_s)
        most_s = source.call.timeout_s if source else self._config.tool_timeout_s
        return min(most_s, self.deadline.remaining_s)

    def _work(
        self, name: str, arguments: Mapping[str, Any], deadline: Deadline
    ) -> Callable[[], ToolResult]:
        if name in self._sources:
            return partial(
                call_source_tool,
                source=self._sources[name],
                arguments=arguments,
                scope=self._scope,
                deadline=deadline,
            )
        if name in self._servers:
            call = partial(call_mcp_tool, server=self._servers[name], name=name)
            return lambda: ToolResult(call(arguments=arguments, deadline=deadline))
        if name not in self._config.tools:
            raise UnknownNameError("tool", name, [spec.name for spec in self.specs])
        # What is remembered belongs to the person, whatever stores they ask in.
        scope = self._person if name == MEMORY_TOOL else self._narrow
        return partial(
            run_tool_plugin,
            name=name,
            arguments=arguments,
            model=self._model,
            scope=scope,
            deadline=deadline,
        )
