"""Team of a supervisor: the agents that it may ask for one person.

Nobody is asked whom the person could not ask, and nobody on whose behalf the question came: there
is no circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from agents import models
from agents.chat.agents.find import agent_stores
from agents.chat.agents.rag_agent import RAGAgent
from agents.core.agent import Emit, Member, RAGAnswer
from agents.core.chat_events import Transcript
from agents.core.page_context import PageRead
from agents.core.state import Turn
from rag.core.access import Scope
from rag.core.errors import UnknownNameError
from rag.services.threads import run_db

# Supervisors under supervisors.
MAX_DEPTH = 3


class MakeAgent(Protocol):
    """``agents.chat.agents.factory.agent_for``."""

    def __call__(
        self, *, agent: models.Agent, scope: Scope, stores: Sequence[Any], path: Sequence[str]
    ) -> RAGAgent:
        """Return the agent of a row."""
        ...


class AgentTeam:
    """``agents.core.agent.Team`` on rows; ``usage`` is what all their answers have cost.

    ``person`` is who asked in the first place: their memories are told whatever stores are looked
    into.
    """

    def __init__(
        self, rows: Sequence[models.Agent], scope: Scope, path: Sequence[str], make: MakeAgent
    ) -> None:
        self._rows = {row.name: row for row in rows}
        self._scope, self._path, self._make = scope, path, make
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

    async def ask(
        self, name: str, question: str, history: Sequence[Turn], page: PageRead, emit: Emit
    ) -> RAGAnswer:
        """Return a member's whole answer, its events told meanwhile; raise RAGError."""
        row = self._rows.get(name)
        if row is None:
            raise UnknownNameError("agent", name, self._rows)
        stores = await run_db(agent_stores, agent=row, scope=self._scope)
        agent = self._make(agent=row, scope=self._scope, stores=stores, path=self._path)
        agent.person, agent.page = self.person, page
        self._asked.append(agent)
        transcript = Transcript()

        async def tell(kind: str, data: Mapping[str, Any]) -> None:
            transcript.add(kind, data)
            await emit(kind, data)

        end = await agent.answer(question, list(history), tell)
        return RAGAnswer(
            transcript.text,
            transcript.citations,
            transcript.sources,
            end.get("outcome", ""),
            end.get("confidence"),
            dict(agent.usage),
            agent.model_id,
        )


def team_of(
    *,
    agent: models.Agent,
    scope: Scope,
    stores: Sequence[Any],
    path: Sequence[str],
    make: MakeAgent,
) -> AgentTeam:
    """Return the team of a supervisor for ``scope``, which it narrows to the stores at hand."""
    names, way = agent.settings.agents, (*path, agent.name)
    found = models.Agent.objects.readable(scope).filter(name__in=names, is_enabled=True)
    found = found.exclude(name__in=way)
    if len(way) >= MAX_DEPTH:
        found = found.exclude(agent_type=models.Agent.Type.SUPERVISOR)
    rows = sorted(found, key=lambda row: names.index(row.name))
    narrow = replace(scope, only_store_ids=frozenset(store.pk for store in stores))
    return AgentTeam(rows, narrow, way, make)
