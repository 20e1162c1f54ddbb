"""``rag_reindex --per-second``: no more chunks a second than that, by a clock that is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.core.errors import CancelledError
from rag.services.files.requeue import requeue_files
from rag.services.reindex import runs as reindex_progress
from rag.services.reindex.move import cancel_reindex
from rag.services.reindex.runs import ProgressRecorder, ReindexOptions, start_reindex
from rag.services.reindex.worker import run_reindex
from tests.factories import FileFactory, StoreFactory, publish
from tests.integration.move_world import NEW, filled_store, start_move, texts, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]


class Clock:
    """Time that passes only while somebody sleeps, and a little with each look."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(reindex_progress, "time", made)
    yield made


def reindexed(*words: str) -> models.ReindexRun:
    call_command("rag_reindex", "--store", "house", *words)
    run = models.ReindexRun.objects.order_by("-pk").first()
    assert run is not None
    return run


@pytest.mark.parametrize("what", ["lexical", "embeddings"])
def test_a_run_takes_as_long_as_the_limit_asks(clock: Clock, what: str) -> None:
    filled_store(200, slug="house")
    run = reindexed("--what", what, "--per-second", "50")
    assert (run.options["per_second"], run.n_done, run.state) == (50.0, 200, "done")
    assert clock.now == pytest.approx(4.0, abs=0.2)
    assert max(clock.slept) <= 4.0


def test_a_move_is_slowed_down_too(clock: Clock) -> None:
    filled_store(100, slug="house")
    run = reindexed("--model", NEW, "--per-second", "25", "--force")
    assert run.state == "swapped"
    assert clock.now >= 4.0


def test_without_a_limit_nobody_waits(clock: Clock) -> None:
    filled_store(100, slug="house")
    reindexed("--what", "lexical")
    assert clock.slept == []


def test_a_slow_machine_is_not_slowed_further(clock: Clock) -> None:
    run = start_move(filled_store(20), per_second=10)
    ticking = ProgressRecorder(run, stage="embedding", n_total=100)
    clock.now += 5.0
    ticking.tick(40)
    assert clock.slept == []
    ticking.tick(20)
    assert clock.slept == [pytest.approx(1.0, abs=0.01)]


def test_a_slowed_run_hears_that_it_was_cancelled(clock: Clock) -> None:
    run = start_move(filled_store(20), per_second=10)
    ticking = ProgressRecorder(run, stage="embedding", n_total=100)
    cancel_reindex(run=run)
    with pytest.raises(CancelledError):
        ticking.tick(20)


def test_files_are_begun_one_after_another() -> None:
    store = StoreFactory()
    for _ in range(3):
        publish(FileFactory(store=store), *texts(30))
    began = timezone.now()
    requeue_files(store=store, per_second=10)
    due = ProcrastinateJob.objects.order_by("pk").values_list("scheduled_at", flat=True)
    first, *later = due
    assert first is None or first <= began + timedelta(seconds=1)
    assert [round((at - began).total_seconds()) for at in later] == [3, 6]


@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(value: str) -> None:
    filled_store(2, slug="house")
    with pytest.raises(CommandError):
        call_command("rag_reindex", "--store", "house", f"--per-second={value}")
    assert not models.ReindexRun.objects.exists()


def test_a_refused_move_tells_why_and_what_to_do_with_exit_code_1(capsys: Any) -> None:
    filled_store(20, slug="house")
    with pytest.raises(CommandError):
        call_command("rag_reindex", "--store", "house", "--model", NEW)
    for flags in ([], ["--swap"]):
        with pytest.raises(CommandError) as raised:
            call_command("rag_move", "--store", "house", *flags)
        assert raised.value.returncode == 1
        told = str(raised.value)
        assert "The new space was refused: no golden questions" in told
        assert "Give --force to swap all the same, --cancel to give the new space up" in told
    assert "refused" in capsys.readouterr().out


def without_vectors(store: models.Store, n: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM rag_chunk_vec_s{store.space_id} WHERE chunk_id IN"
            " (SELECT id FROM rag_chunk WHERE store_id = %s ORDER BY id LIMIT %s)",
            [store.pk, n],
        )


def n_vectors(store: models.Store) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM rag_chunk_vec_s{store.space_id} WHERE store_id = %s", [store.pk]
        )
        return int(cursor.fetchone()[0])


def test_vectors_that_lack_are_made_no_faster_than_was_asked_and_counted(clock: Clock) -> None:
    store = filled_store(200, slug="house")
    without_vectors(store, 128)
    run = reindexed("--what", "embeddings", "--stale-only", "--per-second", "64")
    assert (run.state, run.stage, run.n_done, run.n_total) == ("done", "embedding", 128, 128)
    assert n_vectors(store) == 200
    assert clock.now == pytest.approx(2.0, abs=0.2)


def test_filling_what_lacks_can_be_cancelled(clock: Clock) -> None:
    store = filled_store(200, slug="house")
    without_vectors(store, 192)
    run, _ = start_reindex(
        scope=Scope.operator(),
        store=store,
        what="embeddings",
        options=ReindexOptions(only_stale=True, per_second=64),
    )
    run_reindex(run_id=run.pk, on_progress=lambda told: cancel_reindex(run=run))
    run.refresh_from_db()
    assert run.state == "cancelled"
    # One batch was on its way already.
    assert 8 < n_vectors(store) < 200
