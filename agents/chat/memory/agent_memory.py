"""Agent memory: one person's summary, recall and storage of memories with the agents of a project.

An exchange whose answer rests on chunks that the asker may not read any more, or that are gone, is
not recalled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.sax.saxutils import escape

from django.db.models import Q, QuerySet

from agents import models
from agents.chat.history.history import history_before
from agents.chat.memory.facts import (
    Fact,
    extract_facts,
    facts_prompt,
    make_episode,
    parse_facts,
    states_fact,
)
from agents.chat.memory.storage import (
    MemoryOrigin,
    current_memory_space,
    embed_memory_question,
    own_memories,
    save_episode,
    save_facts,
)
from agents.core.prompts import fill_prompt, prompt_file
from agents.core.recalled_memory import EPISODIC, SEMANTIC, RecalledMemory
from agents.core.state import Turn
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope
from rag.core.errors import ProviderError
from rag.services.search import calibrated_similarity
from rag.services.threads import run_blocking, run_db
from rag.services.tokens import count_tokens
from rag.services.wiring import registry as wiring
from rag.stages.text.normalize import storable_text

MAX_FACTS, MAX_EPISODES = 8, 3
# An exchange must be plainly on the subject; a fact about a person may bear on anything.
LIKE_ENOUGH = 0.65
_WIDER = 3


def recall_memories(
    *,
    query: str,
    scope: Scope,
    project: str | None = None,
    kinds: Sequence[str] = (),
    top_k: int | None = None,
) -> list[RecalledMemory]:
    """Return facts, then exchanges, each the likest first, at most ``top_k`` of a kind.

    ``project`` None looks into all of the person's projects. Nothing is returned to somebody
    unknown or who switched memory off. Raises RAGError when the embedding model fails.
    """
    query = storable_text(query).strip()
    rows = models.Memory.objects.readable(scope).defer("embedding")
    rows = rows if project is None else rows.filter(project=storable_text(project))
    if not query or not may_remember(scope) or not rows.exists():
        return []
    vector, space = embed_memory_question(query), current_memory_space()
    found: list[RecalledMemory] = []
    if SEMANTIC in (kinds or (SEMANTIC,)):
        limit = top_k or MAX_FACTS
        facts = rows.filter(kind=SEMANTIC)
        near = list(facts.near(vector, space)[:limit])
        # Those without a vector of this model are still true.
        near += facts.exclude(pk__in=[one.pk for one in near])[: limit - len(near)]
        found += [_told(one) for one in near]
    if EPISODIC in (kinds or (EPISODIC,)):
        limit = top_k or MAX_EPISODES
        near = list(rows.filter(kind=EPISODIC).near(vector, space)[: _WIDER * limit])
        readable = readable_chunks((pk for one in near for pk in one.chunk_ids), scope)
        told = [_told(one) for one in near if readable.issuperset(one.chunk_ids)]
        found += [one for one in told if one.score >= LIKE_ENOUGH][:limit]
    return found


def memories_saying(*, rows: QuerySet[Any], part: str, scope: Scope) -> QuerySet[Any]:
    """Return the memories that have a part in what ``scope`` may read of them."""
    answers = list(rows.filter(answer__icontains=part).values_list("pk", "chunk_ids"))
    readable = readable_chunks((pk for _, ids in answers for pk in ids), scope)
    told = [pk for pk, ids in answers if readable.issuperset(ids)]
    return rows.filter(Q(text__icontains=part) | Q(pk__in=told))


def memories_rest_on(*, keys: Sequence[str]) -> set[int]:
    """Return the chunks that memories rest on, by their keys."""
    rows = models.Memory.objects.filter(key__in=keys).values_list("chunk_ids", flat=True)
    return {pk for ids in rows for pk in ids}


def may_remember(scope: Scope) -> bool:
    """Return whether somebody is known and has not switched memory off."""
    if scope.user_id is None:
        return False
    return not models.MemoryChoice.objects.filter(user_id=scope.user_id, is_on=False).exists()


def _told(row: models.Memory) -> RecalledMemory:
    distance = getattr(row, "distance", None)
    model = wiring.embedder().id
    score = 0.0 if distance is None else calibrated_similarity(model=model, cosine=1.0 - distance)
    return RecalledMemory(
        str(row.key),
        row.kind,
        row.text,
        row.answer,
        max(0.0, min(1.0, score)),
        row.updated_at,
        row.project,
        tuple(row.chunk_ids),
    )


_HAN = re.compile(r"[\u3400-\u9fff]")
_SHOWN = 1500
_ANSWER = 160
Ask = Callable[[str, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SummaryBudget:
    """How long a summary may be, as ``count`` has the tokens of a text."""

    max_tokens: int
    count: Callable[[str], int]

    def cut(self, text: str) -> str:
        """Return the text's end within the budget, from the start of a line or word."""
        while text and (n := self.count(text)) > self.max_tokens:
            drop = max(1, len(text) * (n - self.max_tokens) // n)
            rest = text[drop:]
            gap = re.search(r"[\s。；;]", rest)
            text = rest[gap.end() :] if gap and gap.end() < len(rest) else rest
        return text.strip()


async def roll_summary(
    summary: str, turns: Sequence[Turn], budget: SummaryBudget, ask: Ask | None = None
) -> str:
    """Return a summary of both.

    ``ask`` takes a system and a user text and returns the answer; without it, or when it fails or
    writes nothing, the summary is cut from what was said.
    """
    if not turns or budget.max_tokens < 1:
        return summary
    said = "\n".join(turn["content"] for turn in turns)
    is_chinese = len(_HAN.findall(said)) > 0.2 * max(1, len(said))
    if ask is not None:
        rules = prompt_file("summary_zh" if is_chinese else "summary_en")
        prompt = fill_prompt(rules, {"words": str(budget.max_tokens)})
        try:
            written = (await ask(prompt, _talk_data(summary, turns))).strip()
        except ProviderError as error:
            log.warning("The summary of a session is cut and not written: %s", error)
        else:
            if written:
                return budget.cut(written)
    return budget.cut("\n".join(filter(None, [summary, *map(_line, turns)])))


def _talk_data(summary: str, turns: Sequence[Turn]) -> str:
    told = "\n".join(
        f'<turn role="{turn["role"]}">{escape(turn["content"][:_SHOWN])}</turn>' for turn in turns
    )
    return f"<summary>{escape(summary)}</summary>\n<turns>\n{told}\n</turns>"


def _line(turn: Turn) -> str:
    text = " ".join(turn["content"].split())
    mark = "Q: " if turn["role"] == "user" else "A: "
    return mark + (text if len(text) <= _ANSWER else f"{text[:_ANSWER]}…")


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
        return await roll_summary(summary, turns, SummaryBudget(SUMMARY_TOKENS, count_tokens))

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
