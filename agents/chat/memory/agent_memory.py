"""Agent memory facade: summary, recall and storage of one person's memories."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from django.db.models import Q

from agents import models
from agents.chat.history.history import history_before
from agents.chat.memory.episodic import make_episode
from agents.chat.memory.facts import Fact, extract_facts, states_fact
from agents.chat.memory.recall import may_remember, recall_memories
from agents.chat.memory.save import MemoryOrigin, own_memories, save_episode, save_facts
from agents.chat.memory.semantic import facts_prompt, parse_facts
from agents.chat.memory.summary import Ask, SummaryBudget, roll_summary
from agents.core.prompts import prompt_file
from agents.core.recalled_memory import SEMANTIC, RecalledMemory
from agents.core.state import Turn
from rag.core.access import Scope
from rag.core.errors import ProviderError
from rag.services.threads import run_blocking, run_db
from rag.services.tokens import count_tokens

MAX_KNOWN, SUMMARY_TOKENS = 30, 300
log = logging.getLogger(__name__)


class RAGAgentMemory:
    """The memory of one person (``scope``) with the agents of a project; nobody else's is seen.

    ``message`` is the answer that new memories come from and go with; ``ask`` is a chat model for
    facts (system and user text in, answer out), without which rules find them.
    """

    def __init__(
        self,
        scope: Scope,
        project: str = "",
        *,
        message: models.Message | None = None,
        ask: Ask | None = None,
    ) -> None:
        self._ask = ask
        self._origin = MemoryOrigin(
            scope, project, message.pk if message else None, message.session_id if message else None
        )

    async def get_session_summary(self, project_id: str = "") -> str:
        """Return what the session, else the newest of the project, was about; empty for none."""
        turns, summary = await run_db(_newest_talk, self._of(project_id))
        prompts = (prompt_file("summary_zh"), prompt_file("summary_en"))
        return await roll_summary(
            summary, turns, SummaryBudget(SUMMARY_TOKENS, count_tokens), prompts
        )

    async def retrieve_relevant_memories(
        self, query: str, project_id: str = ""
    ) -> list[RecalledMemory]:
        """Return facts and exchanges that bear on ``query``; raise RAGError."""
        origin = self._of(project_id)
        return await run_blocking(
            recall_memories, query=query, scope=origin.scope, project=origin.project
        )

    async def store_interaction(
        self, question: str, answer: str, project_id: str = "", *, chunk_ids: Sequence[int] = ()
    ) -> None:
        """Remember an exchange, with the chunks it rests on, and the facts that the question tells.

        Without an ``answer`` only the facts. Nothing for somebody unknown, or who does not want it.
        """
        origin = self._of(project_id)
        if not await run_db(may_remember, origin.scope):
            return
        episode = make_episode(question, answer) if answer.strip() else None
        if episode:
            await run_blocking(save_episode, origin, episode, chunk_ids)
        facts, outdated = await self._facts(origin, question)
        if facts or outdated:
            await run_blocking(save_facts, origin, facts, outdated)

    async def _facts(self, origin: MemoryOrigin, said: str) -> tuple[list[Fact], list[int]]:
        if not states_fact(said):
            return [], []
        if self._ask is not None:
            known = await run_db(_known, origin)
            system, data = facts_prompt(said, [(subject, text) for _, subject, text in known])
            try:
                read = parse_facts(await self._ask(system, data), len(known))
            except ProviderError as error:
                log.warning("Facts are found by rules: %s", error)
                read = None
            if read:
                keys = [pk for pk, _, _ in known]
                facts = [
                    replace(one, replaces=tuple(keys[n - 1] for n in one.replaces))
                    for one in read[0]
                ]
                return facts, [keys[n - 1] for n in read[1]]
        return extract_facts(said), []

    def _of(self, project_id: str) -> MemoryOrigin:
        return replace(self._origin, project=project_id) if project_id else self._origin


def _known(origin: MemoryOrigin) -> list[tuple[int, str, str]]:
    rows = own_memories(origin, SEMANTIC).values_list("pk", "subject", "text")
    return list(rows[:MAX_KNOWN])


def _newest_talk(origin: MemoryOrigin) -> tuple[list[Turn], str]:
    mine = models.Session.objects.readable(origin.scope).exclude(head=None)
    if origin.session_id is not None:
        mine = mine.filter(pk=origin.session_id)
    else:
        mine = mine.filter(
            Q(agent__config__memory_project=origin.project) | Q(agent__name=origin.project)
        )
    session = mine.select_related("head").first()
    head = session.head if session else None
    return history_before(message=head, is_included=True) if head else ([], "")
