"""Events of many runs in one database that goes away for a moment, or for longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import DataError, InterfaceError, OperationalError
from django.db.utils import IntegrityError

from agents import models
from agents.flows.runs import event_log as write_events
from agents.flows.runs.event_log import persist_event
from rag.services import threads


@pytest.fixture
def run(db: None, monkeypatch: pytest.MonkeyPatch) -> models.FlowRun:
    monkeypatch.setattr(threads, "PAUSE_S", 0.001)
    flow = models.Flow.objects.create(name="talk")
    version = models.FlowVersion.objects.create(flow=flow, number=1)
    return models.FlowRun.objects.create(version=version)


def event(run: models.FlowRun, seq: int) -> models.RunEvent:
    return models.RunEvent(run=run, seq=seq, kind="token", data={"n": seq})


def stored(run: models.FlowRun) -> list[int]:
    return list(run.events.order_by("seq").values_list("seq", flat=True))


async def results(*rows: models.RunEvent) -> list[Any]:
    """Write rows at one moment; return what each of those who wrote them was told."""
    return await asyncio.gather(*map(persist_event, rows), return_exceptions=True)


def failing(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[int]:
    """Let the database fail so often before it is back; return how many rows each try had."""
    real, left, tries = write_events._save_events, list(errors), []

    def save(rows: list[models.RunEvent]) -> Any:
        tries.append(len(rows))
        if left:
            raise left.pop(0)
        return real(rows)

    monkeypatch.setattr(write_events, "_save_events", save)
    return tries


async def test_a_moment_without_a_database_ends_no_run(
    run: models.FlowRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = failing(monkeypatch, OperationalError("gone: 'words'"), InterfaceError("closed"))
    assert await results(event(run, 1), event(run, 2), event(run, 3)) == [None] * 3
    assert tries == [3, 3, 3] and await threads.run_thread_sensitive(stored, run) == [1, 2, 3]
    assert "OperationalError" in caplog.text and "words" not in caplog.text


async def test_a_database_that_stays_away_is_told_to_each_and_later_ones_are_written(
    run: models.FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "RETRY_S", 0.0)
    tries = failing(monkeypatch, OperationalError("gone"))
    first = [asyncio.create_task(persist_event(event(run, seq))) for seq in (1, 2)]
    while not tries:
        await asyncio.sleep(0)
    # It came while the others were being tried: its own time is not over.
    later = asyncio.create_task(persist_event(event(run, 3)))
    told = await asyncio.gather(*first, later, return_exceptions=True)
    assert [type(one) for one in told] == [OperationalError, OperationalError, type(None)]
    assert await threads.run_thread_sensitive(stored, run) == [3]


async def test_what_is_wrong_with_a_row_is_not_tried_again(
    run: models.FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = failing(monkeypatch, DataError("too long"))
    (told,) = await results(event(run, 1))
    assert isinstance(told, DataError) and tries == [1]


async def test_a_commit_whose_answer_was_lost_counts_and_anothers_does_not(
    run: models.FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = write_events._save_events, []

    def save(rows: list[models.RunEvent]) -> Any:
        told = real(rows)
        tries.append(told)
        if len(tries) == 1:
            raise OperationalError("the connection was lost at the commit")
        return told

    monkeypatch.setattr(write_events, "_save_events", save)
    assert await results(event(run, 1), event(run, 2)) == [None, None]
    assert len(tries) == 2 and await threads.run_thread_sensitive(stored, run) == [1, 2]
    told = await results(event(run, 2), event(run, 3))
    assert isinstance(told[0], IntegrityError) and told[1] is None
    assert await threads.run_thread_sensitive(stored, run) == [1, 2, 3]


async def test_a_writer_that_is_cancelled_leaves_nobody_waiting(
    run: models.FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = failing(monkeypatch, *[OperationalError("gone")] * 1000)
    waiting = [asyncio.create_task(persist_event(event(run, 1)))]
    while not tries:
        await asyncio.sleep(0)
    waiting.append(asyncio.create_task(persist_event(event(run, 2))))
    await asyncio.sleep(0)
    writer = write_events._QUEUES[asyncio.get_running_loop()].writer
    assert writer is not None
    writer.cancel()
    async with asyncio.timeout(2):
        told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in told] == [asyncio.CancelledError] * 2
