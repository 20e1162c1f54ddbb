"""What an agent remembers of one person, behind one door. In: exchanges. Out: what bears on more.

Three kinds: the session's summary, past questions with their answers, facts the person told.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from django.db.models import Q

from agents import models
from agents.chat.history.history import history_before
from agents.chat.memory.episodic import episode_of
from agents.chat.memory.facts import Fact, facts_by_rules, tells_of_oneself
from agents.chat.memory.keep import Origin, keep_episode, keep_facts, own_memories
from agents.chat.memory.recall import may_remember, recall
from agents.chat.memory.semantic import facts_prompt, read_facts
from agents.chat.memory.session import Ask, Budget, roll_summary
from agents.core.prompts import prompt_file
from agents.core.remembered import SEMANTIC, Remembered
from agents.core.state import Turn
from agents.runtime.threads import in_rows, in_threads
from rag.core.access import Scope
from rag.core.errors import ProviderError
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
        self._origin = Origin(
            scope, project, message.pk if message else None, message.session_id if message else None
        )

    async def get_session_summary(self, project_id: str = "") -> str:
        """Return what the session, else the newest of the project, was about; empty for none."""
        turns, summary = await in_rows(_newest_talk, self._of(project_id))
        prompts = (prompt_file("summary_zh"), prompt_file("summary_en"))
        return await roll_summary(summary, turns, Budget(SUMMARY_TOKENS, count_tokens), prompts)

    async def retrieve_relevant_memories(
        self, query: str, project_id: str = ""
    ) -> list[Remembered]:
        """Return facts and exchanges that bear on ``query``; raise RAGError."""
        origin = self._of(project_id)
        return await in_threads(recall, query=query, scope=origin.scope, project=origin.project)

    async def store_interaction(
        self, question: str, answer: str, project_id: str = "", *, chunk_ids: Sequence[int] = ()
    ) -> None:
        """Remember an exchange, with the chunks it rests on, and the facts that the question tells.

        Without an ``answer`` only the facts. Nothing for somebody unknown, or who does not want it.
        """
        origin = self._of(project_id)
        if not await in_rows(may_remember, origin.scope):
            return
        episode = episode_of(question, answer) if answer.strip() else None
        if episode:
            await in_threads(keep_episode, origin, episode, chunk_ids)
        facts, outdated = await self._facts(origin, question)
        if facts or outdated:
            await in_threads(keep_facts, origin, facts, outdated)

    async def _facts(self, origin: Origin, said: str) -> tuple[list[Fact], list[int]]:
        if not tells_of_oneself(said):
            return [], []
        if self._ask is not None:
            known = await in_rows(_known, origin)
            system, data = facts_prompt(said, [(subject, text) for _, subject, text in known])
            try:
                read = read_facts(await self._ask(system, data), len(known))
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
        return facts_by_rules(said), []

    def _of(self, project_id: str) -> Origin:
        return replace(self._origin, project=project_id) if project_id else self._origin


def _known(origin: Origin) -> list[tuple[int, str, str]]:
    rows = own_memories(origin, SEMANTIC).values_list("pk", "subject", "text")
    return list(rows[:MAX_KNOWN])


def _newest_talk(origin: Origin) -> tuple[list[Turn], str]:
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
