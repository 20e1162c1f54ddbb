"""Searches run in a loop while a store moves and things break: each answer is an exact one."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from rag import models
from rag.services.reindex.move import cancel_reindex, force_swap, purge_space, roll_back_space
from rag.services.reindex.worker import resume_reindex, run_reindex
from tests.forked_processes import start_python
from tests.integration.index_desk import ask
from tests.integration.move_world import (
    NEW,
    Asking,
    Failing,
    answers,
    filled_store,
    start_move,
    two_models,
)
from tests.server_processes import BEGIN

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("two_models")]

WORK = """
from rag.services.reindex.worker import run_reindex
run_reindex(run_id=int(sys.argv[2]))
"""


def exact(store: models.Store, run: models.ReindexRun) -> list[dict[str, Any]]:
    """Return what each query must find in the old and in the new space."""
    before = answers(store)
    force_swap(run=run)
    after = answers(store)
    roll_back_space(run=run)
    assert before != after
    return [before, after]


def test_swaps_and_rollbacks_never_show_an_empty_partial_or_mixed_space() -> None:
    store = filled_store(300)
    run = start_move(store, is_forced=True, is_swapped=False)
    before = answers(store)
    with Asking(store, [before]) as building:
        run_reindex(run_id=run.pk)
    assert (building.failed, building.wrong) == ([], [])
    run.refresh_from_db()
    allowed = exact(store, run)
    with Asking(store, allowed) as asking:
        for _ in range(6):
            force_swap(run=run)
            time.sleep(0.03)
            roll_back_space(run=run)
        force_swap(run=run)
    assert (asking.failed, asking.wrong) == ([], [])
    assert asking.n > 50
    assert answers(store) == allowed[1]


def test_a_provider_that_goes_down_and_up_changes_no_answer() -> None:
    store = filled_store(300)
    before = answers(store)
    run = start_move(store, is_forced=True, is_swapped=False)
    with Asking(store, [before]) as asking:
        for left in (1, 2, None):
            Failing.left = left
            run_reindex(run_id=run.pk)
            resume_reindex(run=run)
    run.refresh_from_db()
    assert (run.state, asking.failed, asking.wrong) == ("ready", [], [])


def test_a_worker_that_is_killed_loses_nothing_and_the_next_one_goes_on() -> None:
    store = filled_store(300)
    before = answers(store)
    run = start_move(store, is_forced=True, is_swapped=False, per_second=150)
    with Asking(store, [before]) as asking:
        worker = start_python(
            "-c",
            BEGIN + WORK,
            str(connection.settings_dict["NAME"]),
            str(run.pk),
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings"},
        )
        deadline = time.monotonic() + 30
        while not (n_kept := count(run)) and time.monotonic() < deadline:
            assert worker.poll() is None
            time.sleep(0.02)
        with pytest.raises(OperationalError, match="another process"):
            run_reindex(run_id=run.pk)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(10)
        wait_until_free(run)
        models.ReindexRun.objects.update(options={**run.options, "per_second": 0})
        assert 0 < n_kept < 300
        run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, count(run)) == ("ready", 300)
    assert (asking.failed, asking.wrong) == ([], [])
    assert exact(store, run)[0] == before


def count(run: models.ReindexRun) -> int:
    return int(ask(f"SELECT count(*) FROM rag_chunk_vec_s{run.target_id}")[0][0])


def wait_until_free(run: models.ReindexRun) -> None:
    """The server learns of a dead process when its socket closes, a moment later."""
    for _ in range(200):
        if not ask(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        ):
            return
        time.sleep(0.02)


def test_a_database_that_cuts_the_worker_off_leaves_a_run_that_goes_on() -> None:
    store = filled_store(300)
    before = answers(store)
    run = start_move(store, is_forced=True, is_swapped=False, per_second=400)
    raised: list[BaseException] = []
    mine: list[int] = []

    def work() -> None:
        try:
            mine.append(ask("SELECT pg_backend_pid()")[0][0])
            run_reindex(run_id=run.pk)
        except OperationalError as error:
            raised.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    while not mine or not count(run):
        time.sleep(0.01)
    ask("SELECT pg_terminate_backend(%s)", mine[0])
    thread.join(20)
    assert len(raised) == 1
    with Asking(store, [before]) as asking:
        run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, count(run)) == ("ready", 300)
    assert (asking.failed, asking.wrong) == ([], [])


def test_what_a_cancelled_move_has_built_goes_while_searches_run() -> None:
    store = filled_store(100)
    before = answers(store)
    run = start_move(store, is_forced=True, is_swapped=False)
    run_reindex(run_id=run.pk)
    with Asking(store, [before]) as asking:
        cancel_reindex(run=run)
        purge_space(run_id=run.pk, space_id=run.target_id)
    assert (asking.failed, asking.wrong) == ([], [])
    assert not models.EmbeddingSpace.objects.filter(model=NEW).exists()
