"""Retention: sessions, memories, runs and their checkpoints go by their settings, not before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents import models
from agents import tasks as agent_tasks
from agents.chat.memory.facts import Fact, make_episode
from agents.chat.memory.storage import MemoryOrigin, save_episode, save_facts
from agents.runtime.retention import (
    purge_memories,
    purge_orphaned_answers,
    purge_runs,
    purge_sessions,
    purge_tokens,
)
from rag.core.access import Scope
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
_STATUS = models.FlowRun.Status


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    """Memories have vectors of a small embedder."""
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The queue's tasks, which leave the test's own connection alone."""
    monkeypatch.setattr(agent_tasks.connections, "close_all", lambda: None)
    return agent_tasks


def aged(row: Any, days: float) -> None:
    type(row).objects.filter(pk=row.pk).update(updated_at=timezone.now() - timedelta(days=days))


def run_of(status: str, ended_days: float | None) -> models.FlowRun:
    """Return a run with a saved state and what each step has saved."""
    flow, _ = models.Flow.objects.get_or_create(name="f")
    version, _ = models.FlowVersion.objects.get_or_create(flow=flow, number=1, yaml="")
    ended = None if ended_days is None else timezone.now() - timedelta(days=ended_days)
    run = models.FlowRun.objects.create(
        version=version, status=status, state={"answer": "saved"}, ended_at=ended
    )
    for seq, kind in enumerate(("node_finished", "token", "done"), start=1):
        record = '{"answer": "saved"}' if kind == "node_finished" else None
        models.RunEvent.objects.create(run=run, seq=seq, kind=kind, record=record)
    return run


def test_saved_states_of_old_runs_go_with_their_events() -> None:
    old = [run_of(status, 31) for status in (_STATUS.DONE, _STATUS.ERROR, _STATUS.CANCELLED)]
    young, paused = run_of(_STATUS.DONE, 29), run_of(_STATUS.PAUSED, None)
    replay = run_of(_STATUS.DONE, 1)
    models.FlowRun.objects.filter(pk=replay.pk).update(replay_of=old[0])
    assert purge_runs(older_than_days=30) == 3
    assert set(models.FlowRun.objects.all()) == {young, paused, replay}
    kept = models.RunEvent.objects.exclude(record=None).values_list("run_id", flat=True)
    assert set(kept) == {young.pk, paused.pk, replay.pk}
    replay.refresh_from_db()
    assert replay.replay_of is None


def test_zero_keeps_all_and_many_go_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.runtime.retention.BATCH", 2)
    for _ in range(5):
        run_of(_STATUS.DONE, 400)
    assert purge_runs(older_than_days=0) == 0
    assert purge_runs(older_than_days=-1) == 0
    assert purge_runs(older_than_days=30) == 5
    assert not models.RunEvent.objects.exists()


def test_single_words_go_earlier_and_what_a_replay_needs_stays(settings: Any) -> None:
    ended, running = run_of(_STATUS.DONE, 1.1), run_of(_STATUS.RUNNING, None)
    assert purge_tokens(older_than_h=48) == 0
    assert purge_tokens(older_than_h=24) == 1
    assert list(ended.events.values_list("kind", flat=True)) == ["node_finished", "done"]
    assert ended.events.get(kind="node_finished").record == '{"answer": "saved"}'
    assert running.events.count() == 3


@pytest.mark.usefixtures("words")
def test_old_memories_go_and_are_kept_for_ever_with_zero() -> None:
    scope = Scope(UserFactory().pk)
    old, new = save_facts(MemoryOrigin(scope), [Fact("a", "red"), Fact("b", "blue")])
    aged(old, 100)
    assert purge_memories(older_than_days=0) == 0
    assert purge_memories(older_than_days=99) == 1
    assert list(models.Memory.objects.all()) == [new]


@pytest.mark.usefixtures("words")
def test_answers_that_rest_on_deleted_passages_are_deleted() -> None:
    file = FileFactory()
    publish(file, "The pump is red.")
    (chunk,) = file.chunks.all()
    origin = MemoryOrigin(Scope(UserFactory().pk))
    episode = make_episode("What colour?", "Red.")
    assert episode
    row = save_episode(origin, episode, [chunk.pk])
    assert purge_orphaned_answers() == 0
    file.delete()
    assert purge_orphaned_answers() == 1
    assert row and not models.Memory.objects.filter(pk=row.pk).exists()


@pytest.mark.usefixtures("words")
def test_old_sessions_and_runs_go_by_setting(settings: Any, tasks: Any) -> None:
    user = UserFactory()
    old, new, busy = (models.Session.objects.create(user=user) for _ in range(3))
    for session in (old, new, busy):
        status = "running" if session is busy else "done"
        message = models.Message.objects.create(session=session, role="assistant", status=status)
        models.MessageEvent.objects.create(message=message, seq=1, kind="delta", data={})
        origin = MemoryOrigin(Scope(user.pk), "a", message.pk, session.pk)
        save_facts(origin, [Fact(str(session.pk), f"word{session.pk}")])
    aged(old, 40)
    aged(busy, 40)
    version = models.FlowVersion.objects.create(
        flow=models.Flow.objects.create(name="f"), number=1, yaml=""
    )
    late = timezone.now() - timedelta(days=40)
    done, paused = (
        models.FlowRun.objects.create(version=version, status=status, ended_at=ended)
        for status, ended in (("done", late), ("paused", None))
    )
    assert purge_sessions(older_than_days=0) == purge_runs(older_than_days=0) == 0
    assert (settings.AGENTS["KEEP_SESSIONS_DAYS"], settings.AGENTS["KEEP_RUNS_DAYS"]) == (0.0, 0.0)
    settings.AGENTS = {**settings.AGENTS, "KEEP_SESSIONS_DAYS": 30.0, "KEEP_RUNS_DAYS": 30.0}
    tasks.clear_old_task(0)
    assert set(models.Session.objects.all()) == {new, busy}
    assert set(models.FlowRun.objects.all()) == {paused}, done
    assert models.MessageEvent.objects.count() == models.Memory.objects.count() == 2


@pytest.mark.usefixtures("words")
def test_what_cannot_be_cleared_keeps_nothing_else(
    settings: Any, tasks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise PermissionError("no")

    user = UserFactory()
    save_facts(MemoryOrigin(Scope(user.pk)), [Fact("a", "red")])
    models.Memory.objects.update(updated_at=timezone.now() - timedelta(days=40))
    settings.AGENTS = {**settings.AGENTS, "KEEP_MEMORIES_DAYS": 30.0}
    monkeypatch.setattr(agent_tasks, "purge_sessions", fail)
    with pytest.raises(PermissionError):
        tasks.clear_old_task(0)
    assert not models.Memory.objects.exists()
