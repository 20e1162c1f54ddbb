"""Post-processing of an answer: cited hits are logged, summary, title and memories written.

Nobody waits for it and it breaks nothing: what fails is logged, and the next step runs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import partial
from xml.sax.saxutils import escape

from django.db import DatabaseError, transaction

from agents import models
from agents.chat.agents.answer_context import AnswerContext
from agents.chat.history.evidence import chunk_ids_of
from agents.chat.history.history import BranchTurn, branch_turns
from agents.chat.history.titles import MAX_TITLE
from agents.chat.memory.agent_memory import RAGAgentMemory, SummaryBudget, roll_summary
from agents.chat.memory.facts import HAN, SCHEMA
from agents.core.prompts import prompt_file
from agents.runtime.scopes import are_there
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.services.search import log_citations
from rag.services.threads import run_db
from rag.services.webhooks import announce_answer
from rag.stages.text.normalize import storable_text

TIMEOUT_S, SHOWN = 30.0, 1000
_RULE = models.Session.TitledBy.RULE
_AROUND = " #*_`\"'“”‘’「」《》。."
_LABEL = re.compile(r"^\s*(?:标题|题目|title)\s*[:：]\s*", re.I)


async def title_session(*, message: models.Message, run: AnswerContext) -> None:
    """Give the session of a first answer a title, if the agent's config asks for it.

    Raises ProviderError when the model fails: the first question stays the title, as it does where
    a person has given one meanwhile.
    """
    if run.config.session_titles != "model" or not run.can_write:
        return
    talk = await run_db(_first_talk, message)
    if talk is None:
        return
    texts = (talk.parent.content, talk.content) if talk.parent else ("", "")
    question, answer = (escape(storable_text(text[:SHOWN])) for text in texts)
    data = f"<question>{question}</question>\n<answer>{answer}</answer>"
    prompt = prompt_file(f"title_{'zh' if HAN.search(question) else 'en'}")
    title = parse_title(await run.complete(prompt, data, max_tokens=256, timeout_s=TIMEOUT_S))
    if title:
        await run_db(_write, talk, title)


def parse_title(answer: str) -> str:
    """Return the title of a model's answer, empty when it is none."""
    lines = [line for line in storable_text(answer).splitlines() if line.strip()]
    if len(lines) != 1:
        return ""
    bare = _LABEL.sub("", lines[0].strip(_AROUND))
    title = " ".join(bare.strip(_AROUND).split())
    return title if len(title) <= MAX_TITLE else ""


def _first_talk(message: models.Message) -> models.Message | None:
    return (
        models.Message.objects.filter(pk=message.pk, parent__parent=None, session__titled_by=_RULE)
        .select_related("parent")
        .first()
    )


def _write(made_of: models.Message, title: str) -> None:
    mine = models.Session.objects.filter(pk=made_of.session_id, titled_by=_RULE)
    with transaction.atomic():
        if are_there(made_of.chunk_ids):
            by = models.Session.TitledBy.MODEL
            mine.update(title=title, titled_by=by, titled_after=made_of)


async def update_summary(*, message: models.Message, run: AnswerContext) -> None:
    """Write a summary of all turns that no longer fit into what the model is shown.

    It stands with the last turn that it covers, so that branches keep apart.
    """
    limit = 2 * run.config.history_turns
    is_all_shown = run.n_before is not None and run.n_before + 2 <= limit
    if not run.config.summary_tokens or is_all_shown:
        return
    said = await run_db(branch_turns, message=message)
    fallen = said[:-limit] if limit else said
    if not fallen or fallen[-1].summary:
        return
    known = max((n for n, one in enumerate(fallen) if one.summary), default=-1)
    before = fallen[known].summary if known >= 0 else ""
    text = await roll_summary(
        before,
        [one.turn for one in fallen[known + 1 :]],
        SummaryBudget(run.config.summary_tokens, run.count_tokens),
        run.complete if run.can_write else None,
    )
    await run_db(_write_summary, fallen, text)


def _write_summary(fallen: Sequence[BranchTurn], text: str) -> None:
    with transaction.atomic():
        if are_there(pk for one in fallen for pk in one.chunk_ids):
            models.Message.objects.filter(pk=fallen[-1].message_id).update(summary=text)


log = logging.getLogger(__name__)


async def post_process(*, message: models.Message, run: AnswerContext) -> None:
    """Do all of it, one thing after the other; raises nothing that is known to happen."""
    for work in (note_answer, update_summary, title_session, store_memories):
        try:
            await work(message=message, run=run)
        except (RAGError, DatabaseError) as error:
            # An answer that was deleted meanwhile leaves nothing behind: its keys refuse.
            log.warning("%s failed after answer %s: %s", work.__name__, message.pk, _kind(error))


async def note_answer(*, message: models.Message, run: AnswerContext) -> None:
    """Announce the answer by its keys, and note with its searches which of their hits it cites."""
    await run_db(_note, message, run.scope)


def _note(message: models.Message, scope: Scope) -> None:
    _announce(message)
    if message.citations:
        log_citations(scope=scope, since=message.created_at, citations=message.citations)


def _announce(message: models.Message) -> None:
    rows = models.Message.objects.filter(pk=message.pk, status=models.Message.Status.DONE)
    row = rows.select_related("session__agent").first()
    if row is None:
        return
    told = {
        "message": str(row.key),
        "session": str(row.session.key),
        "agent": row.session.agent.name if row.session.agent else "",
        "n_citations": len(row.citations),
    }
    announce_answer(outcome=row.outcome, data=told)


async def store_memories(*, message: models.Message, run: AnswerContext) -> None:
    """Keep the exchange and what the person told, if the agent and the person want it.

    An answer is kept only where every passage that was shown for it can be checked again later.
    """
    if not run.config.enable_memory or run.scope.user_id is None:
        return
    row = await run_db(_exchange, message)
    if row is None or row.parent is None:
        return
    shown = [one for one in row.sources if one.get("doc_id")]
    is_kept = row.outcome == "answered" and shown and all(one.get("chunk_id") for one in shown)
    memory = RAGAgentMemory(
        run.scope,
        row.session.agent.project if row.session.agent else "",
        message=row,
        ask=partial(run.complete, schema=SCHEMA) if run.can_write else None,
    )
    await memory.store_interaction(
        row.parent.content, row.content if is_kept else "", chunk_ids=sorted(chunk_ids_of(row))
    )


def _exchange(message: models.Message) -> models.Message | None:
    rows = models.Message.objects.select_related("parent", "session__agent")
    return rows.filter(pk=message.pk, status=models.Message.Status.DONE).first()


def _kind(error: Exception) -> str:
    # What a database says may quote what was said.
    return str(error) if isinstance(error, RAGError) else type(error).__name__
