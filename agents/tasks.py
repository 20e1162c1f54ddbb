"""Queue tasks: each calls services. Jobs run at least once, so services are idempotent."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from django.db import connections
from procrastinate.contrib.django import app

from agents.chat.answers.control import resume_answer
from agents.chat.answers.event_log import fail_abandoned
from agents.chat.history.evidence import redact_deleted
from agents.chat.memory.storage import reembed_memories
from agents.conf import agent_setting
from agents.flows.runs.redact import redact_deleted_runs
from agents.flows.runs.worker import enqueue_abandoned_runs, resume_abandoned
from agents.runtime.retention import (
    purge_events,
    purge_memories,
    purge_orphaned_answers,
    purge_runs,
    purge_sessions,
    purge_tokens,
)


@app.task(name="agents.adopt_run", queue="flows")
async def adopt_run_task(run_id: int) -> None:
    """Go on with a run whose process has ended."""
    await resume_abandoned(run_id=run_id)


@app.task(name="agents.adopt_answer", queue="flows")
async def adopt_answer_task(message_id: int) -> None:
    """Begin an answer again whose process has ended."""
    await resume_answer(message_id=message_id)


@app.periodic(cron="* * * * * */10")
@app.task(
    name="agents.defer_abandoned_runs",
    queue="upkeep",
    queueing_lock="agents.defer_abandoned_runs",
)
def defer_abandoned_runs_task(timestamp: int, **_: Any) -> None:
    """Let somebody go on with runs that nobody works on."""
    try:
        enqueue_abandoned_runs()
    finally:
        connections.close_all()


@app.periodic(cron="* * * * * 5")
@app.task(name="agents.tend_answers", queue="upkeep", queueing_lock="agents.tend_answers")
def tend_answers_task(timestamp: int, **_: Any) -> None:
    """Begin answers again whose process has died, and clear away the events of old ones."""
    try:
        fail_abandoned()
        purge_events(older_than_h=float(agent_setting("KEEP_EVENTS_H")))
    finally:
        connections.close_all()


@app.periodic(cron="17 * * * *")
@app.task(name="agents.clear_old", queue="upkeep", queueing_lock="agents.clear_old")
def clear_old_task(timestamp: int, **_: Any) -> None:
    """Delete conversations, runs and memories that are older than the settings keep them."""
    try:
        # Each of them runs, whatever becomes of the others; what was raised fails the job then.
        with ExitStack() as upkeep:
            upkeep.callback(purge_orphaned_answers)
            upkeep.callback(
                purge_memories, older_than_days=float(agent_setting("KEEP_MEMORIES_DAYS"))
            )
            upkeep.callback(purge_tokens, older_than_h=agent_setting("KEEP_EVENTS_H"))
            upkeep.callback(purge_runs, older_than_days=agent_setting("KEEP_RUNS_DAYS"))
            upkeep.callback(
                purge_sessions, older_than_days=float(agent_setting("KEEP_SESSIONS_DAYS"))
            )
    finally:
        connections.close_all()


@app.periodic(cron="47 3 * * *")
@app.task(name="agents.drop_gone", queue="upkeep", queueing_lock="agents.drop_gone")
def _drop_gone_task(timestamp: int, **_: Any) -> None:
    """Take the words of deleted passages out of kept answers and runs of flows."""
    try:
        # Each of them runs, whatever becomes of the other.
        with ExitStack() as upkeep:
            upkeep.callback(redact_deleted_runs)
            upkeep.callback(redact_deleted)
    finally:
        connections.close_all()


@app.periodic(cron="*/5 * * * *")
@app.task(name="agents.embed_memories", queue="upkeep", queueing_lock="agents.embed_memories")
def embed_memories_task(timestamp: int, **_: Any) -> None:
    """Give memories without a vector of today's model one, a batch at a time."""
    try:
        reembed_memories()
    finally:
        connections.close_all()
