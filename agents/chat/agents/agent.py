"""Agents: found by name, built from their row with one person's rights, and run.

A supervisor asks a team: nobody whom the person could not ask, and nobody on whose behalf the
question came, so that there is no circle.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agents import models
from agents.chat.agents.answer_context import AnswerContext, Earlier
from agents.chat.agents.tools import SEARCH, AgentTools
from agents.chat.engine.plain import PlainEngine
from agents.conf import agent_setting
from agents.core.agent import Emit, History, Member, RAGAnswer
from agents.core.chat_events import ChatEvent, Transcript
from agents.core.draw_graph import END, START, GraphEdge, GraphNode, draw_graph
from agents.core.draw_pipeline import pipeline_json, pipeline_mermaid
from agents.core.extend_pipeline import with_extensions
from agents.core.page_context import PageContext, PageRead
from agents.core.pipeline import Pipeline, PipelineState
from agents.core.state import Turn
from rag.core.access import Scope
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    RAGError,
    UnknownNameError,
)
from rag.core.ports import ChatModel
from rag.services.stores import find_stores, readable_stores
from rag.services.threads import run_blocking, run_db
from rag.services.tokens import count_tokens
from rag.services.wiring.registry import chat_for

if TYPE_CHECKING:
    from agents.chat.engine.langgraph import GraphEngine

MAX_STORES = 50
# Supervisors under supervisors.
MAX_DEPTH = 3
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


def find_agent(*, name: str, scope: Scope) -> models.Agent:
    """Return an agent that ``scope`` may ask; NotFoundError alike for none and a hidden one."""
    # No agent has such a name, and Postgres takes no NUL.
    found = models.Agent.objects.readable(scope).filter(name=name.replace("\0", "\ufffd")).first()
    if found is None:
        raise NotFoundError("There is no agent “{name}”.", name=name)
    if not found.is_enabled:
        raise ConflictError(
            "The agent “{name}” is switched off.", hint="Switch it on, or ask another.", name=name
        )
    return found


def agent_stores(*, agent: models.Agent, scope: Scope, names: Sequence[str] = ()) -> list[Any]:
    """Return the stores where the agent looks for ``scope``: never more than these may be read.

    ``names`` choose among the agent's own stores, or among all where it has none. Without names it
    is the agent's own, else the first 50 that may be read. Stores kept at Gemini are left out.
    Only an agent that searches stores itself must have one.
    """
    own = set(agent.stores.values_list("pk", flat=True))
    if names:
        found = find_stores(names=list(names), scope=scope)
        for store in found:
            if own and store.pk not in own:
                raise ForbiddenError(
                    "The agent “{agent}” does not look into the store “{name}”.",
                    hint="Leave out stores, or ask another agent.",
                    agent=agent.name,
                    name=store.slug,
                )
            store.require_local()
        return found
    found = readable_stores(scope=scope, ids=own or None, limit=MAX_STORES)
    _require_stores(agent, found)
    return found


def _require_stores(agent: models.Agent, stores: Sequence[Any]) -> None:
    if not stores and _searches(agent):
        raise InvalidInputError(
            "There is no store that the agent “{name}” could search for you.",
            hint="Ask for the right to read one.",
            name=agent.name,
        )


def _searches(agent: models.Agent) -> bool:
    if agent.agent_type == models.Agent.Type.REACT:
        return SEARCH in agent.settings.tools
    return agent.agent_type != models.Agent.Type.SUPERVISOR


def engine_for(pipeline: Pipeline, name: str = "") -> PlainEngine | GraphEngine:
    """Return the engine of a name, empty for the setting; UnknownNameError for another.

    A graph engine that cannot be loaded, or cannot compile the pipeline, is replaced by the plain
    one, which the log says; what a step of a run raises is none of this.
    """
    name = name or str(agent_setting("ENGINE"))
    if name not in ENGINES:
        raise UnknownNameError("agent engine", name, ENGINES)
    return PlainEngine(pipeline) if name == "plain" else _graph_engine(pipeline)


def _graph_engine(pipeline: Pipeline) -> PlainEngine | GraphEngine:
    try:
        # Heavy: 0.9 s and 71 MB, only where an agent is asked.
        from agents.chat.engine.langgraph import GraphEngine

        return GraphEngine(pipeline)
    except _UNFIT:
        log.exception("agents run on the plain engine, LangGraph cannot be used")
        return PlainEngine(pipeline)


@lru_cache(maxsize=8)
def agent_engine(kind: str, name: str) -> PlainEngine | GraphEngine:
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


def answer_ending(end: PipelineState) -> dict[str, Any]:
    """Return what is told at the end of an answer, beside its text and citations."""
    return {
        "outcome": end.get("outcome", ""),
        "confidence": end.get("confidence"),
        "grounding": end.get("grounding") or {},
    }


class RAGAgent:
    """An agent of any type for one person; nothing is stored here.

    ``path`` names the agents on whose behalf it is asked: it never asks these. ``pipeline`` takes
    the place of the type's own. ``person`` is whose memories are told, where ``scope`` is narrower
    than theirs.
    """

    def __init__(
        self,
        agent: models.Agent,
        scope: Scope,
        stores: Sequence[Any],
        *,
        path: Sequence[str] = (),
        pipeline: Pipeline | None = None,
    ) -> None:
        self._agent, self._scope, self._stores, self._path = agent, scope, stores, path
        self._pipeline = pipeline
        self._team = AgentTeam((), scope, path)
        self.run: AnswerContext | None = None
        self.page: PageContext | PageRead = PageContext()
        self.earlier: Earlier | None = None
        self.person = scope

    @property
    def usage(self) -> Mapping[str, int]:
        """Return the tokens that the answer has cost so far, those of agents that it asked too."""
        total = Counter(self.run.usage if self.run else {})
        total.update(self._team.usage)
        return total

    @property
    def recalled(self) -> set[str]:
        """Return the keys of memories that its model was told, and those of agents it asked."""
        own = self.run.recalled | self.run.tools.recalled if self.run else set()
        return own | self._team.recalled

    @property
    def model_id(self) -> str:
        """Return the model that is asked, empty before."""
        return self.run.model_id if self.run else ""

    async def answer(self, query: str, history: History, emit: Emit) -> PipelineState:
        """Run the pipeline once, telling its events; return the state at its end."""
        engine, chat = await run_blocking(self._made)
        read, given = (history, ()) if callable(history) else (None, history)
        if self._agent.agent_type == models.Agent.Type.SUPERVISOR:
            self._team = await run_db(
                team_of,
                agent=self._agent,
                scope=self._scope,
                stores=self._stores,
                path=self._path,
            )
            self._team.person = self.person
        tools = AgentTools(self._agent, chat, self._scope, self._stores, self.person)
        self.run = AnswerContext(
            config=self._agent.settings,
            chat=chat,
            scope=self._scope,
            person=self.person,
            stores=self._stores,
            emit=emit,
            history=read,
            earlier=self.earlier,
            temperature=self._agent.temperature,
            prompt=self._agent.prompt,
            max_iterations=self._agent.max_iterations,
            page=self.page,
            project=self._agent.project,
            team=self._team,
            tools=tools,
        )
        for fault in await tools.load():
            await self.run.emit("notice", {"step": "tools", "text": str(fault)})
        return await engine.run(self.run.initial_state(query, given), self.run)

    async def generate(
        self, query: str, history: Sequence[Turn] = (), emit: Emit | None = None
    ) -> RAGAnswer:
        """Return the whole answer, its events told meanwhile; raise RAGError."""
        transcript = Transcript()

        async def tell(kind: str, data: Mapping[str, Any]) -> None:
            transcript.add(kind, data)
            if emit is not None:
                await emit(kind, data)

        end = await self.answer(query, history, tell)
        return RAGAnswer(
            transcript.text,
            transcript.citations,
            transcript.sources,
            end.get("outcome", ""),
            end.get("confidence"),
            dict(self.usage),
            self.model_id,
            end.get("grounding") or {},
        )

    async def stream(self, query: str, history: Sequence[Turn] = ()) -> AsyncIterator[ChatEvent]:
        """Yield the events as they come, done or error last; who leaves stops the model."""
        told: asyncio.Queue[tuple[str, Mapping[str, Any]] | None] = asyncio.Queue()

        async def emit(kind: str, data: Mapping[str, Any]) -> None:
            told.put_nowait((kind, data))

        async def work() -> None:
            try:
                end = await self.answer(query, history, emit)
            except RAGError as error:
                await emit("error", {"code": error.code, "error": error.as_dict()})
            else:
                await emit("done", {**answer_ending(end), "text": end.get("final_answer", "")})

        task = asyncio.create_task(work())
        task.add_done_callback(lambda _: told.put_nowait(None))
        try:
            seq = 0
            while (item := await told.get()) is not None:
                seq += 1
                yield ChatEvent(seq, *item)
            task.result()
        finally:
            task.cancel()

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
        found: str | dict[str, Any] = forms[form](self._engine("plain").pipeline)
        return found

    def _made(self) -> tuple[PlainEngine | GraphEngine, ChatModel]:
        # On another thread, since the first of each are heavy.
        return self._engine(str(agent_setting("ENGINE"))), chat_for(
            scope=self._scope,
            kind="chat",
            model=self._agent.model,
            stores=self._stores,
            agent=self._agent.name,
        )

    def _engine(self, name: str) -> PlainEngine | GraphEngine:
        own = self._pipeline
        return agent_engine(self._agent.agent_type, name) if own is None else engine_for(own, name)


_PLAIN = (
    "name",
    "display_name",
    "description",
    "agent_type",
    "agent_role",
    "max_iterations",
    "temperature",
    "is_enabled",
    "is_builtin",
    "model",
    "prompt",
)


class AgentTeam:
    """``agents.core.agent.Team`` on rows; ``usage`` is what all their answers have cost.

    ``person`` is who asked in the first place: their memories are told whatever stores are looked
    into.
    """

    def __init__(self, rows: Sequence[models.Agent], scope: Scope, path: Sequence[str]) -> None:
        self._rows = {row.name: row for row in rows}
        self._scope, self._path = scope, path
        self.person = scope
        self._asked: list[RAGAgent] = []

    @property
    def members(self) -> Sequence[Member]:
        """Return who can be asked, in the order of the config."""
        return [
            Member(row.name, f"{row.display_name} {row.description}".strip(), row.agent_role)
            for row in self._rows.values()
        ]

    @property
    def usage(self) -> Mapping[str, int]:
        """Return the tokens of all that were asked."""
        total: Counter[str] = Counter()
        for agent in self._asked:
            total.update(agent.usage)
        return total

    @property
    def recalled(self) -> set[str]:
        """Return the keys of memories that any of them was told."""
        return {key for agent in self._asked for key in agent.recalled}

    async def ask(
        self, name: str, question: str, history: Sequence[Turn], page: PageRead, emit: Emit
    ) -> RAGAnswer:
        """Return a member's whole answer, its events told meanwhile; raise RAGError."""
        row = self._rows.get(name)
        if row is None:
            raise UnknownNameError("agent", name, self._rows)
        stores = await run_db(agent_stores, agent=row, scope=self._scope)
        agent = agent_for(agent=row, scope=self._scope, stores=stores, path=self._path)
        agent.person, agent.page = self.person, page
        self._asked.append(agent)
        return await agent.generate(question, list(history), emit)


def team_of(
    *, agent: models.Agent, scope: Scope, stores: Sequence[Any], path: Sequence[str]
) -> AgentTeam:
    """Return the team of a supervisor for ``scope``, which it narrows to the stores at hand."""
    names, way = agent.settings.agents, (*path, agent.name)
    found = models.Agent.objects.readable(scope).filter(name__in=names, is_enabled=True)
    found = found.exclude(name__in=way)
    if len(way) >= MAX_DEPTH:
        found = found.exclude(agent_type=models.Agent.Type.SUPERVISOR)
    rows = sorted(found, key=lambda row: names.index(row.name))
    narrow = replace(scope, only_store_ids=frozenset(store.pk for store in stores))
    return AgentTeam(rows, narrow, way)


def agent_for(
    *, agent: models.Agent, scope: Scope, stores: Sequence[Any], path: Sequence[str] = ()
) -> RAGAgent:
    """Return the agent for one question of ``scope``, looking into ``stores``.

    ``path`` names the agents on whose behalf it is asked: it never asks these. Raises
    InvalidInputError where an agent that searches is given no store.
    """
    _require_stores(agent, stores)
    return RAGAgent(agent, scope, stores, path=path)


def render_agent_graph(*, agent: models.Agent) -> str:
    """Return what happens inside an agent."""
    graph: Any = RAGAgent(agent, Scope.anonymous(), ()).export_graph("json")
    nodes = [GraphNode(START, state="border"), *(GraphNode(one["name"]) for one in graph["nodes"])]
    edges = [
        GraphEdge(one["source"], one["target"], "?" if one["kind"] == "conditional" else "")
        for one in graph["edges"]
    ]
    return draw_graph([*nodes, GraphNode(END, state="border")], edges, str(agent))
