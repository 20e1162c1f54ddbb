"""The agent of type rag: the pipeline, with one person's rights. In: a question. Out: events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from agents import models
from agents.core.agent import Emit, History
from agents.core.chat import ChatEvent, Transcript
from agents.core.draw_pipeline import pipeline_json, pipeline_mermaid
from agents.core.pipeline import PipelineState
from agents.core.state import Turn
from agents.services.apart import in_threads
from agents.services.chat_run import ChatRun
from agents.services.engines import rag_engine
from agents.services.event_queue import events_of
from rag.core.access import Scope
from rag.core.errors import UnknownNameError
from rag.services import wiring

_PLAIN = (
    "name", "display_name", "description", "agent_type", "agent_role", "max_iterations",
    "temperature", "is_enabled", "is_builtin", "model", "prompt",
)  # fmt: skip


@dataclass(slots=True)
class RAGAnswer:
    """A whole answer and how it came about."""

    text: str
    citations: Sequence[dict[str, Any]]
    sources: Sequence[dict[str, Any]]
    outcome: str = ""
    confidence: float | None = None
    usage: dict[str, int] = field(default_factory=dict)
    model: str = ""


class RAGAgent:
    """``agents.core.agent.Agent``; nothing is stored here."""

    def __init__(self, agent: models.Agent, scope: Scope, stores: Sequence[Any]) -> None:
        self._agent, self._scope, self._stores = agent, scope, stores
        self.run: ChatRun | None = None

    async def answer(self, query: str, history: History, emit: Emit) -> PipelineState:
        """Run the pipeline once, telling its events; return the state at its end."""
        engine = await in_threads(rag_engine, str(settings.AGENTS["ENGINE"]))
        chat = await in_threads(wiring.chat_model, self._agent.model)
        config = self._agent.settings
        given = [] if callable(history) else list(history)
        self.run = ChatRun(
            config=config, chat=chat, scope=self._scope, stores=self._stores, emit=emit,
            history=history if callable(history) else lambda: ([], ""),
            temperature=self._agent.temperature, prompt=self._agent.prompt,
        )  # fmt: skip
        state: PipelineState = {
            "query": query, "history": given, "top_k": config.default_top_k,
            "enable_rewrite": config.enable_query_rewrite, "enable_rerank": config.enable_rerank,
            "vector_threshold": config.vector_threshold,
        }  # fmt: skip
        return await engine.run(state, self.run)

    async def generate(self, query: str, history: Sequence[Turn] = ()) -> RAGAnswer:
        """Return the whole answer; raise RAGError."""
        told = Transcript()

        async def emit(kind: str, data: Any) -> None:
            told.add(kind, data)

        end = await self.answer(query, history, emit)
        run = self.run
        return RAGAnswer(
            told.text, told.citations, told.sources, end.get("outcome", ""), end.get("confidence"),
            run.usage if run else {}, run.model_id if run else "",
        )  # fmt: skip

    async def stream(self, query: str, history: Sequence[Turn] = ()) -> AsyncIterator[ChatEvent]:
        """Yield the events as they come, done or error last; who leaves stops the model."""

        async def work(emit: Emit) -> dict[str, Any]:
            end = await self.answer(query, history, emit)
            last = {"outcome": end.get("outcome", ""), "confidence": end.get("confidence")}
            return {**last, "text": end.get("final_answer", "")}

        events: Any = events_of(work)
        async with aclosing(events):
            async for event in events:
                yield event

    def get_config(self) -> dict[str, Any]:
        """Return the agent's row as JSON, the config with its defaults."""
        row = self._agent
        plain = {name: getattr(row, name) for name in _PLAIN}
        return {"id": row.pk, **plain, "config": row.settings.as_dict()}

    def export_graph(self, form: str = "mermaid") -> str | dict[str, Any]:
        """Return the pipeline as mermaid text or JSON; UnknownNameError for another form."""
        forms: dict[str, Any] = {"mermaid": pipeline_mermaid, "json": pipeline_json}
        if form not in forms:
            raise UnknownNameError("form of a graph", form, forms)
        found: str | dict[str, Any] = forms[form](rag_engine("plain").pipeline)
        return found
