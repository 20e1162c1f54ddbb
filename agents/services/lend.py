"""What the house lends a node of a run: models, sources, tools, events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agents.core.nodes import FilesAsked, SourcesAsked
from agents.flows.node_outputs import outputs_of
from agents.services.ask_sources import ask_sources
from agents.services.run_apart import run_apart, run_tool
from agents.services.run_files import run_files
from agents.services.run_log import EventLog
from agents.services.stream_answer import stream_answer
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatRequest
from rag.core.tools import ToolSpec, spec_of
from rag.core.types import ChatReply
from rag.services import wiring
from rag.services.count_tokens import count_tokens
from rag.services.source_calls import SourceOutcome
from rag.services.usage_chat import chat_for

_TOLD = ("model", "input_tokens", "output_tokens", "notice")


@dataclass(slots=True)
class LentRun:
    """``agents.core.nodes.NodeRun`` on our own services; answers of the past are used again."""

    node: str
    visit: int
    scope: Scope
    deadline: Deadline
    prompts: Mapping[str, str]
    log: EventLog
    model: str = ""
    decision: str | None = None
    _n_asked: int = field(default=0)

    def count_tokens(self, text: str) -> int:
        """Return the number of o200k tokens."""
        return count_tokens(text)

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Store an event of this node and tell of it."""
        await self.log.append(kind, self.node, self.visit, data=data)

    def model_id(self, name: str) -> str:
        """Return the model of the run where it has one, else the named or configured one."""
        return self.model or name or wiring.chat_model().id

    async def ask_model(self, name: str, request: ChatRequest) -> ChatReply:
        """Return the answer, told piece by piece; one that this visit has had is not asked for."""
        known = self.log.answers[self.node, self.visit]
        self._n_asked += 1
        if self._n_asked <= len(known):
            return ChatReply(**known[self._n_asked - 1])
        started = time.monotonic()
        try:
            async with asyncio.timeout(request.timeout_s):
                model = await asyncio.to_thread(
                    chat_for, scope=self.scope, kind="flow", model=self.model or name
                )
                reply = await stream_answer(model, request, self._tell)
        except TimeoutError:
            raise ProviderTimeoutError(
                "The model of “{node}” did not answer within {timeout_s} s.",
                hint="Allow more by timeout, or choose a faster model.",
                node=self.node, timeout_s=f"{request.timeout_s:g}",
            ) from None  # fmt: skip
        told = asdict(reply)
        data = {key: told[key] for key in _TOLD}
        data["duration_ms"] = round((time.monotonic() - started) * 1e3, 1)
        await self.log.append("model_answer", self.node, self.visit, data=data, record=told)
        return reply

    async def ask_sources(self, asked: SourcesAsked) -> list[SourceOutcome]:
        """Return one outcome per call, asked on other threads."""
        return await run_apart(ask_sources, asked=asked, scope=self.scope, deadline=self.deadline)

    async def ask_files(self, asked: FilesAsked) -> dict[str, Any]:
        """Return what the files say, asked on another thread; a recorded answer is used again."""
        if known := self.log.answers[self.node, self.visit]:
            return dict(known[0]["output"])
        started = time.monotonic()
        output = await run_apart(run_files, asked=asked, scope=self.scope, deadline=self.deadline)
        data = {"mode": output["mode"], "duration_ms": round((time.monotonic() - started) * 1e3, 1)}
        await self.log.append(
            "model_answer", self.node, self.visit, data=data, record={"output": output}
        )
        return output

    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what each node has given in this run so far."""
        return outputs_of((node, one) for (node, _), one in self.log.updates.items())

    def tool_spec(self, name: str) -> ToolSpec:
        """Return what a model is told of a tool plugin."""
        return spec_of(PLUGINS.get("tool", name))

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool's answer, worked out on another thread for the run's own scope."""
        answer = await run_apart(
            run_tool, name=name, arguments=arguments, scope=self.scope, deadline=self.deadline
        )
        await self.emit("tool", {"tool": name, "arguments": dict(arguments), "answer": answer})
        return answer

    async def _tell(self, text: str) -> None:
        await self.emit("token", {"text": text})
