"""What is done when an answer has been given. In: its row, its run. Out: summary, title, memories.

Nobody waits for it and it breaks nothing: what fails is logged, and the next thing is done.
"""

from __future__ import annotations

import logging
from functools import partial

from django.db import DatabaseError

from agents import models
from agents.flows.model_options import model_options
from agents.memory.keep import project_of
from agents.memory.semantic import SCHEMA
from agents.services.apart import in_rows
from agents.services.chat_run import ChatRun
from agents.services.memory_agent import RAGAgentMemory
from agents.services.session_title import title_session
from agents.services.summarize import summarize
from rag.core.errors import RAGError
from rag.services.log_citations import log_citations

log = logging.getLogger(__name__)


async def after_answer(*, message: models.Message, run: ChatRun) -> None:
    """Do all of it, one thing after the other; raises nothing that is known to happen."""
    for work in (note_citations, summarize, title_session, remember):
        try:
            await work(message=message, run=run)
        except (RAGError, DatabaseError) as error:
            # An answer that was deleted meanwhile leaves nothing behind: its keys refuse.
            log.warning("%s failed after answer %s: %s", work.__name__, message.pk, _kind(error))


async def note_citations(*, message: models.Message, run: ChatRun) -> None:
    """Note with the searches of the answer which of their hits it cites."""
    if message.citations:
        await in_rows(
            log_citations, scope=run.scope, since=message.created_at, citations=message.citations
        )


async def remember(*, message: models.Message, run: ChatRun) -> None:
    """Keep the exchange and what the person told, if the agent and the person want it.

    An answer is kept only where every passage that was shown for it can be checked again later.
    """
    if not run.config.enable_memory or run.scope.user_id is None:
        return
    row = await in_rows(_exchange, message)
    if row is None or row.parent is None:
        return
    shown = [one for one in row.sources if one.get("doc_id")]
    chunk_ids = [one["chunk_id"] for one in shown if one.get("chunk_id")]
    is_kept = row.outcome == "answered" and shown and len(chunk_ids) == len(shown)
    options = model_options(run.model_id, None, SCHEMA)
    memory = RAGAgentMemory(
        run.scope, project_of(row.session.agent), message=row,
        ask=partial(run.told, options=options) if run.can_write else None,
    )  # fmt: skip
    await memory.store_interaction(
        row.parent.content, row.content if is_kept else "", chunk_ids=chunk_ids
    )


def _exchange(message: models.Message) -> models.Message | None:
    rows = models.Message.objects.select_related("parent", "session__agent")
    return rows.filter(pk=message.pk, status=models.Message.Status.DONE).first()


def _kind(error: Exception) -> str:
    # What a database says may quote what was said.
    return str(error) if isinstance(error, RAGError) else type(error).__name__
