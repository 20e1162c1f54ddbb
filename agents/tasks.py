"""Queue tasks: one line each into a service. Jobs run at least once, so services repeat safely."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.db import connections
from procrastinate.contrib.django import app

from agents.chat.answers.claim import end_abandoned
from agents.chat.answers.store_events import clear_events
from agents.chat.history.deleted_evidence import drop_gone_evidence
from agents.chat.history.retention import clear_runs, clear_sessions
from agents.chat.memory.upkeep import clear_memories, drop_gone_answers, embed_again
from agents.flows.runs.event_log import clear_tokens
from agents.flows.runs.resume import adopt_run, enqueue_abandoned_runs


@app.task(name="agents.adopt_run", queue="flows")
async def adopt_run_task(run_id: int) -> None:
    """Go on with a run whose process has ended."""
    await adopt_run(run_id=run_id)


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
    """End answers whose process has died, and clear away the events of old ones."""
    try:
        end_abandoned()
        clear_events(older_than_h=float(settings.AGENTS["KEEP_EVENTS_H"]))
    finally:
        connections.close_all()


@app.periodic(cron="17 * * * *")
@app.task(name="agents.clear_old", queue="upkeep", queueing_lock="agents.clear_old")
def clear_old_task(timestamp: int, **_: Any) -> None:
    """Delete conversations, runs and memories that are older than the settings keep them."""
    keep = settings.AGENTS
    try:
        # Each of them runs, whatever becomes of the others; what was raised fails the job then.
        with ExitStack() as upkeep:
            upkeep.callback(drop_gone_answers)
            upkeep.callback(clear_memories, older_than_days=float(keep["KEEP_MEMORIES_DAYS"]))
            upkeep.callback(clear_tokens, older_than_h=float(keep["KEEP_EVENTS_H"]))
            upkeep.callback(clear_runs, older_than_days=float(keep["KEEP_RUNS_DAYS"]))
            upkeep.callback(clear_sessions, older_than_days=float(keep["KEEP_SESSIONS_DAYS"]))
    finally:
        connections.close_all()


@app.periodic(cron="47 3 * * *")
@app.task(name="agents.drop_gone", queue="upkeep", queueing_lock="agents.drop_gone")
def _drop_gone_task(timestamp: int, **_: Any) -> None:
    """Take the words of deleted passages out of kept answers."""
    try:
        drop_gone_evidence()
    finally:
        connections.close_all()


@app.periodic(cron="*/5 * * * *")
@app.task(name="agents.embed_memories", queue="upkeep", queueing_lock="agents.embed_memories")
def embed_memories_task(timestamp: int, **_: Any) -> None:
    """Give memories without a vector of today's model one, a batch at a time."""
    try:
        embed_again()
    finally:
        connections.close_all()
