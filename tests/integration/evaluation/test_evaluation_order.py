"""Evaluations as jobs: one for one order, counted as they go, stopped, and begun anew."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.core.errors import CancelledError, ForbiddenError, InvalidInputError, NotFoundError
from rag.services.access.api_keys import scope_of
from rag.services.evaluation import runs as measuring
from rag.services.evaluation.runs import (
    cancel_evaluation,
    evaluate_store,
    fail_evaluation,
    run_evaluation_job,
    save_results,
    start_evaluation,
)
from tests.edges.admin_client import use_words_embedder
from tests.factories import GroupFactory, UserFactory
from tests.integration.golden_world import asked_store, golden

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
States = models.EvaluationRun.State


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


@pytest.fixture
def store() -> models.Store:
    return asked_store()


def jobs() -> list[dict[str, Any]]:
    rows = ProcrastinateJob.objects.filter(task_name="rag.evaluation_run").order_by("pk")
    return [row.args for row in rows]


def row(run: models.EvaluationRun) -> models.EvaluationRun:
    return models.EvaluationRun.objects.get(pk=run.pk)


def test_an_order_waits_with_a_job_and_is_worked_off(store: models.Store) -> None:
    run = start_evaluation(scope=OPERATOR, store=store, facts={"label": "first"})
    assert (run.state, run.n_questions, run.label) == (States.WAITING, 2, "first")
    assert run.model == store.space.model
    assert jobs() == [{"run_id": run.pk}]
    run_evaluation_job(run_id=run.pk)
    done = row(run)
    assert (done.state, done.n_done, done.n_questions) == (States.DONE, 2, 2)
    assert done.metrics == evaluate_store(store=store).metrics
    assert [result.ranks for result in done.results.order_by("pk")] == [[1], [1]]
    run_evaluation_job(run_id=run.pk)
    assert done.results.count() == 2


def test_the_same_order_twice_is_one_run_and_other_settings_are_another(
    store: models.Store,
) -> None:
    first = start_evaluation(scope=OPERATOR, store=store)
    assert start_evaluation(scope=OPERATOR, store=store) == first
    words = store.retrieval_settings.but(mode="keyword")
    other = start_evaluation(scope=OPERATOR, store=store, settings=words)
    assert other != first
    assert jobs() == [{"run_id": first.pk}, {"run_id": other.pk}]
    run_evaluation_job(run_id=first.pk)
    assert start_evaluation(scope=OPERATOR, store=store) not in (first, other)


def test_each_question_is_counted_and_a_stop_is_heard_before_the_next(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_evaluation(scope=OPERATOR, store=store)
    asked: list[str] = []
    search = measuring.retrieve

    def stopping(**options: Any) -> Any:
        asked.append(options["query"])
        if len(asked) == 2:
            assert row(run).n_done == 1
            assert cancel_evaluation(scope=OPERATOR, run_ids=[run.pk]) == 1
        return search(**options)

    golden(store, "a third one", [models.Chunk.objects.earliest("pk")])
    monkeypatch.setattr(measuring, "retrieve", stopping)
    run_evaluation_job(run_id=run.pk)
    assert len(asked) == 2
    stopped = row(run)
    assert (stopped.state, stopped.metrics, stopped.results.count()) == (States.CANCELLED, {}, 0)


def test_a_run_that_was_stopped_meanwhile_keeps_nothing(store: models.Store) -> None:
    run = start_evaluation(scope=OPERATOR, store=store)
    cancel_evaluation(scope=OPERATOR, run_ids=[run.pk])
    with pytest.raises(CancelledError):
        save_results(run=run, results=[])
    run_evaluation_job(run_id=run.pk)
    assert row(run).state == States.CANCELLED


def test_a_run_whose_worker_died_is_begun_anew(store: models.Store) -> None:
    run = start_evaluation(scope=OPERATOR, store=store)
    models.EvaluationRun.objects.update(state=States.RUNNING, n_done=1)
    run_evaluation_job(run_id=run.pk)
    assert (row(run).state, row(run).n_done) == (States.DONE, 2)


def test_what_goes_wrong_is_told_on_the_run(store: models.Store) -> None:
    run = start_evaluation(scope=OPERATOR, store=store)
    store.golden_questions.update(enabled=False)
    run_evaluation_job(run_id=run.pk)
    failed = row(run)
    assert failed.state == States.FAILED
    assert failed.error is not None
    assert "no golden question" in failed.error["message"]
    fail_evaluation(run_id=run.pk, error=InvalidInputError("other"))
    assert row(run).error == failed.error
    with pytest.raises(InvalidInputError, match="no golden question"):
        start_evaluation(scope=OPERATOR, store=store)


def test_who_may_not_change_the_store_neither_orders_nor_stops(store: models.Store) -> None:
    readers = GroupFactory()
    store.reader_groups.add(readers)
    reader, stranger = scope_of(UserFactory(groups=[readers])), scope_of(UserFactory())
    with pytest.raises(ForbiddenError):
        start_evaluation(scope=reader, store=store)
    with pytest.raises(NotFoundError):
        start_evaluation(scope=stranger, store=store)
    run = start_evaluation(scope=OPERATOR, store=store)
    for scope in (reader, stranger):
        assert cancel_evaluation(scope=scope, run_ids=[run.pk]) == 0
    assert row(run).state == States.WAITING
    run_evaluation_job(run_id=10**9)


def test_a_store_that_has_moved_is_measured_in_its_new_space(store: models.Store) -> None:
    run = start_evaluation(scope=OPERATOR, store=store)
    models.EvaluationRun.objects.update(space=None, created_at=timezone.now())
    run_evaluation_job(run_id=run.pk)
    assert row(run).space_id == store.live_space_id
