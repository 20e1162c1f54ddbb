"""Memory of flow runs: recall and storage by the same memories as those of agents."""

from __future__ import annotations

import logging
from collections.abc import Collection

from agents.chat.memory.agent_memory import RAGAgentMemory, recall_memories
from agents.core.recalled_memory import SEMANTIC, within_budget
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.services.tokens import count_tokens

MAX_TOKENS = 800
log = logging.getLogger(__name__)


def recall_for_run(query: str, scope: Scope, project: str) -> tuple[str, set[int]]:
    """Return a line for each fact and exchange, and what they rest on.

    Where the embedding model fails nothing is recalled, and the log says so: a run goes on.
    """
    try:
        found = recall_memories(query=query, scope=scope, project=project)
    except RAGError as error:
        log.warning("A run recalls nothing: %s", error)
        return "", set()
    kept = within_budget(found, MAX_TOKENS, count_tokens)
    lines = [
        f"- {one.text}" if one.kind == SEMANTIC else f"- Q: {one.text} A: {one.answer}"
        for one in kept
    ]
    return "\n".join(lines), {pk for one in kept for pk in one.chunk_ids}


async def keep_run_exchange(
    *, question: str, answer: str, scope: Scope, project: str, chunk_ids: Collection[int]
) -> None:
    """Remember what a run was asked and answered, as an agent would."""
    memory = RAGAgentMemory(scope, project)
    await memory.store_interaction(question, answer, chunk_ids=sorted(chunk_ids))
