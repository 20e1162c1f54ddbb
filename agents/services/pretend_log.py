"""A run that keeps nothing and asks nobody. In: a case. Out: what the graph would be told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agents.core.nodes import FilesAsked, Pause, SourcesAsked
from agents.flows.cases import Case
from agents.flows.definition import Flow
from agents.flows.node_outputs import outputs_of
from agents.services.pretend_outcome import pretend_files, pretend_outcome
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import NotFoundError
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatModel, ChatRequest
from rag.core.tools import ToolSpec, spec_of
from rag.core.types import ChatReply
from rag.services.count_tokens import count_tokens
from rag.services.source_calls import SourceOutcome


class PretendLog:
    """``agents.core.nodes.RunLog`` in memory; ``route`` is the nodes that ran, in order."""

    def __init__(self, flow: Flow, case: Case, model: ChatModel) -> None:
        self.route: list[str] = []
        self.updates: dict[tuple[str, int], dict[str, Any]] = {}
        self.model, self.case = model, case
        self.deadline = Deadline(flow.definition.timeout_s)
        self.prompts = flow.prompts

    def recorded(self, node: str, visit: int) -> Mapping[str, Any] | None:
        """Return None: a case has no past."""
        return None

    def node_run(self, node: str, visit: int) -> PretendRun:
        """Return what a node is lent: the case's own results, answers and decisions."""
        return PretendRun(self, node)

    async def started(self, node: str, visit: int) -> None:
        """Note the node."""
        self.route.append(node)

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Keep what templates may ask for."""
        self.updates[node, visit] = dict(update)

    async def routed(self, node: str, visit: int, route: Mapping[str, Any]) -> None:
        """Keep nothing."""

    async def paused(self, node: str, visit: int, pause: Pause) -> None:
        """Keep nothing."""

    async def failed(self, node: str, visit: int) -> None:
        """Keep nothing."""


class PretendRun:
    """``agents.core.nodes.NodeRun`` for a case."""

    scope = Scope.operator()

    def __init__(self, log: PretendLog, node: str) -> None:
        self._log = log
        self.node, self.deadline, self.prompts = node, log.deadline, log.prompts
        self.decision = log.case.decisions.get(node)

    def count_tokens(self, text: str) -> int:
        """Return the number of o200k tokens."""
        return count_tokens(text)

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell nobody."""

    def model_id(self, name: str) -> str:
        """Return the script's name."""
        return self._log.model.id

    async def ask_model(self, name: str, request: ChatRequest) -> ChatReply:
        """Return what the script says."""
        return await asyncio.to_thread(self._log.model.generate, request)

    async def ask_sources(self, asked: SourcesAsked) -> list[SourceOutcome]:
        """Return the case's results; a source that the case does not name is a failed one."""
        return [
            pretend_outcome(call, self._log.case.sources.get(call.name)) for call in asked.calls
        ]

    async def ask_files(self, asked: FilesAsked) -> dict[str, Any]:
        """Return what the case gives under the node's name: a whole output, texts, or an error."""
        return pretend_files(self.node, self._log.case.sources.get(self.node))

    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what each node has given so far."""
        return outputs_of((node, one) for (node, _), one in self._log.updates.items())

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result that the case gives under the tool's name."""
        found = self._log.case.sources.get(name)
        if not isinstance(found, dict):
            raise NotFoundError("The case has no result of “{name}”.", name=name)
        return found

    def tool_spec(self, name: str) -> ToolSpec:
        """Return what is known of a tool; one that is not installed has but its name."""
        known = name in set(PLUGINS.names("tool"))
        return spec_of(PLUGINS.get("tool", name)) if known else ToolSpec(name, "")
