"""What runs of flows have saved, our checkpoints, goes with AGENT_KEEP_RUNS_DAYS and not before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents import models
from agents.runtime.retention import purge_runs, purge_tokens

pytestmark = pytest.mark.django_db
_STATUS = models.FlowRun.Status


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
