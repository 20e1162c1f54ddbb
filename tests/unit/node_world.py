"""What a node is lent in tests: a script for models, outcomes for sources, everything noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.core.cited_answers import RunPassages
from agents.core.nodes import FileQuery, FlowOutcome, HttpCall, SourceQueries
from agents.core.spoken_text import SpokenText
from agents.flows.versions.dry_run import stub_files, stub_outcome
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import RAGError, UnknownNameError
from rag.core.ports import ChatRequest
from rag.core.tools import ToolSpec
from rag.core.types import ChatReply
from rag.services.sources.run import SourceOutcome
from rag.stages.citing.verify import VerifiedAnswer


class NotedRun:
    """``NodeRun`` whose model says the ``answers`` in turn; an error among them is raised."""

    node = "node"
    has_tools = False
    scope = Scope.anonymous()

    def __init__(
        self,
        *answers: str | ChatReply | RAGError,
        prompts: Mapping[str, str] | None = None,
        sources: Mapping[str, Any] | None = None,
        decision: str | None = None,
        tools: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        self.answers, self.sources, self.tools = (
            list(answers),
            dict(sources or {}),
            dict(tools or {}),
        )
        self.prompts: Mapping[str, str] = prompts or {}
        self.decision, self.comment = decision, ""
        self.edited: Mapping[str, Any] = {}
        self.deadline = Deadline(30)
        self.requests: list[tuple[str, ChatRequest]] = []
        self.asked: list[SourceQueries] = []
        self.files: list[FileQuery] = []
        self.fetched: list[HttpCall] = []
        self.flows: list[tuple[str, str, dict[str, Any]]] = []
        self.inner: Any = None
        self.past: dict[str, Mapping[str, Any]] = {}
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.passages = RunPassages()
        self.verdicts: list[VerifiedAnswer] = []

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        self.events.append((kind, data))

    def model_id(self, name: str) -> str:
        return name or "doubao:own"

    async def takes_tools(self, name: str) -> bool:
        return self.has_tools

    async def ask_model(
        self, name: str, request: ChatRequest, spoken: SpokenText | None = None
    ) -> ChatReply:
        self.requests.append((name, request))
        answer = self.answers.pop(0)
        if isinstance(answer, RAGError):
            raise answer
        reply = answer if isinstance(answer, ChatReply) else ChatReply(answer)
        if spoken:
            spoken.take(reply.text, is_call=bool(reply.tool_calls))
        return replace(reply, model=self.model_id(name))

    def keep_verdicts(self, answer: VerifiedAnswer) -> None:
        self.verdicts.append(answer)

    async def ask_sources(self, asked: SourceQueries) -> list[SourceOutcome]:
        self.asked.append(asked)
        return [stub_outcome(call, self.sources.get(call.name)) for call in asked.calls]

    async def ask_files(self, asked: FileQuery) -> dict[str, Any]:
        self.files.append(asked)
        return stub_files(self.node, self.sources.get(self.node))

    async def fetch(self, call: HttpCall) -> dict[str, Any]:
        self.fetched.append(call)
        return {"status": 200, "content_type": "application/json", "body": self.sources[self.node]}

    def inside(self) -> Any:
        return self.inner

    async def run_flow(
        self, name: str, message: str, given: Mapping[str, Any], state: Mapping[str, Any]
    ) -> FlowOutcome | None:
        self.flows.append((name, message, dict(given)))
        return self.sources.get(name)

    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        return self.past

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self.tools[name](arguments)

    async def mcp_tools(self, server: Any) -> list[ToolSpec]:
        return [ToolSpec(name, f"does {name}") for name in server.names]

    async def call_mcp(
        self, server: Any, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        return self.tools[name](arguments)

    def tool_spec(self, name: str) -> ToolSpec:
        if name not in self.tools:
            raise UnknownNameError("tool", name, self.tools)
        return ToolSpec(name, f"does {name}", {"type": "object"})

    @property
    def texts(self) -> list[list[tuple[str, str]]]:
        """The messages of each request."""
        return [[(m.role, m.content) for m in request.messages] for _, request in self.requests]

    def names(self) -> Sequence[list[str]]:
        """The sources of each time that some were asked."""
        return [[call.name for call in asked.calls] for asked in self.asked]
