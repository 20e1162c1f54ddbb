"""RAG agent: runs its pipeline on the configured engine with one person's rights."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Protocol

from django.conf import settings

from agents import models
from agents.chat.agents.answer_context import AnswerContext
from agents.chat.agents.event_stream import stream_events
from agents.chat.agents.tools import AgentTools
from agents.chat.agents.values import EmptyTeam, serialize_agent
from agents.chat.engine.plain import PlainEngine
from agents.chat.memory.save import project_of
from agents.core.agent import Emit, History, RAGAnswer, Team
from agents.core.chat_events import ChatEvent, Transcript
from agents.core.draw_pipeline import pipeline_json, pipeline_mermaid
from agents.core.extend_pipeline import with_extensions
from agents.core.page_context import PageContext, PageRead
from agents.core.pipeline import Pipeline, PipelineRun, PipelineState
from agents.core.state import Turn
from rag.core.access import Scope
from rag.core.errors import UnknownNameError
from rag.core.ports import ChatModel
from rag.services.threads import run_blocking
from rag.services.tokens import count_tokens
from rag.services.wiring.accounts import chat_for

ENGINES = ("langgraph", "plain")
# Whatever a library raises that cannot be loaded, or does not fit what it is built with.
_UNFIT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    SystemError,
    TypeError,
    ValueError,
)
log = logging.getLogger(__name__)


class Engine(Protocol):
    """Runs a pipeline; made once, for any number of runs."""

    name: str
    pipeline: Pipeline

    async def run(self, state: PipelineState, run: PipelineRun) -> PipelineState:
        """Return the state at the end; raise what a step without a fallback raises."""
        ...


def engine_for(pipeline: Pipeline, name: str = "") -> Engine:
    """Return the engine of a name, empty for the setting; UnknownNameError for another.

    A graph engine that cannot be loaded, or cannot compile the pipeline, is replaced by the plain
    one, which the log says; what a step of a run raises is none of this.
    """
    name = name or str(settings.AGENTS["ENGINE"])
    if name not in ENGINES:
        raise UnknownNameError("agent engine", name, ENGINES)
    return PlainEngine(pipeline) if name == "plain" else _graph_engine(pipeline)


def _graph_engine(pipeline: Pipeline) -> Engine:
    try:
        # Heavy: 0.9 s and 71 MB, only where an agent is asked.
        from agents.chat.engine.langgraph import GraphEngine

        return GraphEngine(pipeline)
    except _UNFIT:
        log.exception("agents run on the plain engine, LangGraph cannot be used")
        return PlainEngine(pipeline)


@lru_cache(maxsize=8)
def agent_engine(kind: str, name: str) -> Engine:
    """Return the engine of a type of agents, made once a process, with what plugins added."""
    # Its steps count tokens on the event loop, which would wait a second for the vocabulary.
    count_tokens("")
    return engine_for(with_extensions(kind, _pipeline(kind)), name)


def _pipeline(kind: str) -> Pipeline:
    # Steps are needed only where an agent is asked.
    from agents.chat.pipelines.rag import rag_pipeline

    # Likewise.
    from agents.chat.pipelines.react import react_pipeline

    # Likewise.
    from agents.chat.pipelines.supervisor import supervisor_pipeline

    made = {"rag": rag_pipeline, "react": react_pipeline, "supervisor": supervisor_pipeline}
    if kind not in made:
        raise UnknownNameError("type of agent", kind, made)
    return made[kind]()


class RAGAgent:
    """``agents.core.agent.Agent``; nothing is stored here. ``pipeline`` takes the place of the
    type's own. ``person`` is whose memories are told, where ``scope`` is narrower than theirs."""

    kind = "rag"

    def __init__(
        self,
        agent: models.Agent,
        scope: Scope,
        stores: Sequence[Any],
        *,
        pipeline: Pipeline | None = None,
    ) -> None:
        self._agent, self._scope, self._stores = agent, scope, stores
        self._pipeline = pipeline
        self.run: AnswerContext | None = None
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
        engine, chat = await run_blocking(self._made)
        read, given = (history, ()) if callable(history) else (None, history)
        self.run = AnswerContext(
            config=self._agent.settings,
            chat=chat,
            scope=self._scope,
            person=self.person,
            stores=self._stores,
            emit=emit,
            history=read,
            temperature=self._agent.temperature,
            prompt=self._agent.prompt,
            max_iterations=self._agent.max_iterations,
            page=self.page,
            project=project_of(self._agent),
            team=await self._team(),
            tools=AgentTools(self._agent, chat, self._scope, self._stores, self.person),
        )
        return await engine.run(self.run.initial_state(query, given), self.run)

    async def generate(self, query: str, history: Sequence[Turn] = ()) -> RAGAnswer:
        """Return the whole answer; raise RAGError."""
        transcript = Transcript()

        async def emit(kind: str, data: Any) -> None:
            transcript.add(kind, data)

        end = await self.answer(query, history, emit)
        return RAGAnswer(
            transcript.text,
            transcript.citations,
            transcript.sources,
            end.get("outcome", ""),
            end.get("confidence"),
            dict(self.usage),
            self.model_id,
        )

    async def stream(self, query: str, history: Sequence[Turn] = ()) -> AsyncIterator[ChatEvent]:
        """Yield the events as they come, done or error last; who leaves stops the model."""

        async def work(emit: Emit) -> dict[str, Any]:
            end = await self.answer(query, history, emit)
            last = {"outcome": end.get("outcome", ""), "confidence": end.get("confidence")}
            return {**last, "text": end.get("final_answer", "")}

        events: Any = stream_events(work)
        async with aclosing(events):
            async for event in events:
                yield event

    def get_config(self) -> dict[str, Any]:
        """Return the agent's row as JSON, the config with its defaults."""
        return serialize_agent(self._agent)

    def export_graph(self, form: str = "mermaid") -> str | dict[str, Any]:
        """Return the pipeline as mermaid text or JSON; UnknownNameError for another form."""
        forms: dict[str, Any] = {"mermaid": pipeline_mermaid, "json": pipeline_json}
        if form not in forms:
            raise UnknownNameError("form of a graph", form, forms)
        found: str | dict[str, Any] = forms[form](self._engine("plain").pipeline)
        return found

    async def _team(self) -> Team:
        return EmptyTeam()

    def _made(self) -> tuple[Engine, ChatModel]:
        # On another thread, since the first of each are heavy.
        return self._engine(str(settings.AGENTS["ENGINE"])), chat_for(
            scope=self._scope,
            kind="chat",
            model=self._agent.model,
            stores=self._stores,
            agent=self._agent.name,
        )

    def _engine(self, name: str) -> Engine:
        own = self._pipeline
        return agent_engine(self.kind, name) if own is None else engine_for(own, name)
