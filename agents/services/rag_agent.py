"""The agent of type rag: the pipeline, with one person's rights. In: a question. Out: events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from django.conf import settings

from agents import models
from agents.core.agent import Emit, History, Team
from agents.core.chat import ChatEvent, Transcript
from agents.core.draw_pipeline import pipeline_json, pipeline_mermaid
from agents.core.page_context import PageContext, PageRead
from agents.core.pipeline import Pipeline, PipelineState
from agents.core.state import Turn
from agents.memory.keep import project_of
from agents.services.agent_answer import NoTeam, RAGAnswer, told_row
from agents.services.apart import in_threads
from agents.services.chat_run import ChatRun
from agents.services.engines import Engine, agent_engine, engine_for
from agents.services.event_queue import events_of
from agents.services.react_tools import AgentTools
from rag.core.access import Scope
from rag.core.errors import UnknownNameError
from rag.core.ports import ChatModel
from rag.services.usage_chat import chat_for


class RAGAgent:
    """``agents.core.agent.Agent``; nothing is stored here. ``pipeline`` takes the place of the
    type's own. ``person`` is whose memories are told, where ``scope`` is narrower than theirs."""

    kind = "rag"

    def __init__(
        self, agent: models.Agent, scope: Scope, stores: Sequence[Any], *,
        pipeline: Pipeline | None = None,
    ) -> None:  # fmt: skip
        self._agent, self._scope, self._stores = agent, scope, stores
        self._pipeline = pipeline
        self.run: ChatRun | None = None
        self.page: PageContext | PageRead = PageContext()
        self.person = scope

    @property
    def usage(self) -> Mapping[str, int]:
        """Return the tokens that the answer has cost so far."""
        return self.run.usage if self.run else {}

    @property
    def model_id(self) -> str:
        """Return the model that is asked, empty before."""
        return self.run.model_id if self.run else ""

    async def answer(self, query: str, history: History, emit: Emit) -> PipelineState:
        """Run the pipeline once, telling its events; return the state at its end."""
        engine, chat = await in_threads(self._made)
        read, given = (history, ()) if callable(history) else (None, history)
        self.run = ChatRun(
            config=self._agent.settings, chat=chat, scope=self._scope, person=self.person,
            stores=self._stores, emit=emit, history=read, temperature=self._agent.temperature,
            prompt=self._agent.prompt, max_iterations=self._agent.max_iterations, page=self.page,
            project=project_of(self._agent), team=await self._team(),
            tools=AgentTools(self._agent, chat, self._scope, self._stores, self.person),
        )  # fmt: skip
        return await engine.run(self.run.opened(query, given), self.run)

    async def generate(self, query: str, history: Sequence[Turn] = ()) -> RAGAnswer:
        """Return the whole answer; raise RAGError."""
        told = Transcript()

        async def emit(kind: str, data: Any) -> None:
            told.add(kind, data)

        end = await self.answer(query, history, emit)
        return RAGAnswer(
            told.text, told.citations, told.sources, end.get("outcome", ""), end.get("confidence"),
            dict(self.usage), self.model_id,
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
        return told_row(self._agent)

    def export_graph(self, form: str = "mermaid") -> str | dict[str, Any]:
        """Return the pipeline as mermaid text or JSON; UnknownNameError for another form."""
        forms: dict[str, Any] = {"mermaid": pipeline_mermaid, "json": pipeline_json}
        if form not in forms:
            raise UnknownNameError("form of a graph", form, forms)
        found: str | dict[str, Any] = forms[form](self._engine("plain").pipeline)
        return found

    async def _team(self) -> Team:
        return NoTeam()

    def _made(self) -> tuple[Engine, ChatModel]:
        # On another thread, since the first of each are heavy.
        return self._engine(str(settings.AGENTS["ENGINE"])), chat_for(
            scope=self._scope, kind="chat", model=self._agent.model, stores=self._stores,
            agent=self._agent.name,
        )  # fmt: skip

    def _engine(self, name: str) -> Engine:
        own = self._pipeline
        return agent_engine(self.kind, name) if own is None else engine_for(own, name)
