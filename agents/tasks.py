"""Queue tasks: one line each into a service. Jobs run at least once, so services repeat safely."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import connections
from procrastinate.contrib.django import app

from agents.services.abandoned_runs import adopt_run, defer_abandoned_runs
from agents.services.chat_claim import end_abandoned
from agents.services.store_events import clear_events


@app.task(name="agents.adopt_run", queue="flows")
def adopt_run_task(run_id: int) -> None:
    """Go on with a run whose process has died."""
    try:
        adopt_run(run_id=run_id)
    finally:
        connections.close_all()


@app.periodic(cron="* * * * * */10")
@app.task(
    name="agents.defer_abandoned_runs", queue="upkeep",
    queueing_lock="agents.defer_abandoned_runs",
)  # fmt: skip
def defer_abandoned_runs_task(timestamp: int, **_: Any) -> None:
    """Let somebody go on with runs that nobody works on."""
    try:
        defer_abandoned_runs(defer=adopt_run_task)
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
