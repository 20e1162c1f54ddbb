"""Reindex runs in the admin: ordered, looked at, steered, and hidden from others."""

from __future__ import annotations

from typing import Any

import pytest
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.services.reindex.worker import run_reindex
from tests.edges.admin_client import at, client_of, page, post_action, words
from tests.factories import UserFactory
from tests.integration.move_world import NEW, Failing, filled_store, golden, move, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]
RIGHTS = ["view_reindexrun", "add_reindexrun", "change_reindexrun", "view_store", "change_store"]


@pytest.fixture
def desk() -> Any:
    """Return the client of a store's owner, and the store."""
    owner = UserFactory(permissions=RIGHTS, is_staff=True)
    return client_of(owner), filled_store(20, owner=owner, name="House")


def order(client: Any, store: models.Store, /, **values: Any) -> Any:
    form = {"store": store.pk, "what": "lexical", "model": "", **values}
    return client.post(at("rag_reindexrun_add"), form, follow=True)


def act(client: Any, run: models.ReindexRun, action: str) -> str:
    told = words(post_action(client, "reindexrun", action, [run.pk]).content.decode())
    run.refresh_from_db()
    return told


def test_an_order_is_queued_once_and_its_progress_is_shown(desk: Any) -> None:
    client, store = desk
    assert order(client, store).status_code == 200
    run = models.ReindexRun.objects.get()
    assert (run.what, run.state, run.created_by) == ("lexical", "waiting", store.owner)
    (job,) = ProcrastinateJob.objects.filter(task_name="rag.reindex_run")
    assert job.args == {"run_id": run.pk}
    models.ReindexRun.objects.update(state="running", stage="words", n_done=7, n_total=20)
    assert "7 / 20" in words(page(client, "rag_reindexrun_changelist"))
    shown = words(page(client, "rag_reindexrun_change", run.pk))
    assert "7 / 20" in shown and "House" in shown
    order(client, store)
    assert models.ReindexRun.objects.count() == 1, "the same order again is the same run"
    models.ReindexRun.objects.update(state="waiting", n_done=0)
    run_reindex(run_id=run.pk)
    assert "20 / 20" in words(page(client, "rag_reindexrun_change", run.pk))


def test_a_run_is_cancelled_and_not_twice(desk: Any) -> None:
    client, store = desk
    order(client, store)
    run = models.ReindexRun.objects.get()
    act(client, run, "cancel")
    assert run.state == "cancelled"
    assert f"Run {run.pk} is over" in act(client, run, "cancel")
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.n_done) == ("cancelled", 0), "its job finds nothing to do"


def test_a_refused_move_says_why_and_is_forced_rolled_back_and_retired(desk: Any) -> None:
    client, store = desk
    run = move(store)
    assert run.state == "refused"
    shown = words(page(client, "rag_reindexrun_change", run.pk))
    assert "no golden questions" in shown and "Swap by force, or cancel" in shown
    assert "Only a swapped one is retired" in act(client, run, "retire")
    act(client, run, "swap")
    assert (run.state, run.report["forced_by"]) == ("swapped", store.owner.username)
    store.refresh_from_db()
    assert store.live_space_id == run.target_id
    assert "Roll it back first" in act(client, run, "cancel")
    act(client, run, "retire")
    assert run.state == "swapped", "searches that have begun end in the old space"
    act(client, run, "roll_back")
    store.refresh_from_db()
    assert (run.state, store.live_space_id) == ("ready", run.source_id)
    act(client, run, "cancel")
    assert run.state == "cancelled"


def test_a_failed_run_is_queued_again(desk: Any) -> None:
    client, store = desk
    golden(store)
    Failing.left = 0
    run = move(store)
    assert run.state == "failed"
    assert "The model is down." in words(page(client, "rag_reindexrun_change", run.pk))
    Failing.left = None
    act(client, run, "resume")
    assert ProcrastinateJob.objects.filter(task_name="rag.reindex_run", status="todo").count() == 1
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "swapped"


@pytest.mark.parametrize(
    "values, said",
    [
        ({"what": "embeddings", "model": "nobody:x"}, "Unknown embedding provider “nobody”"),
        ({"what": "parse", "model": NEW}, "model"),
        ({"what": "everything"}, "everything is not one of the available choices"),
        ({"store": 0}, "not one of the available choices"),
    ],
)
def test_bad_orders_are_told_in_the_form(desk: Any, values: dict[str, Any], said: str) -> None:
    client, store = desk
    assert said in words(order(client, store, **values).content.decode())
    assert not models.ReindexRun.objects.exists()


def test_runs_of_others_are_not_there_and_cannot_be_steered(desk: Any) -> None:
    client, store = desk
    order(client, store)
    run = models.ReindexRun.objects.get()
    stranger = client_of(UserFactory(permissions=RIGHTS, is_staff=True))
    assert "House" not in words(page(stranger, "rag_reindexrun_changelist"))
    assert stranger.get(at("rag_reindexrun_change", run.pk)).status_code in (302, 404)
    act(stranger, run, "cancel")
    assert run.state == "waiting"
    assert "not one of the available choices" in words(order(stranger, store).content.decode())
    assert models.ReindexRun.objects.count() == 1
    looker = client_of(UserFactory(permissions=["view_reindexrun", "view_store"], is_staff=True))
    assert looker.get(at("rag_reindexrun_add")).status_code == 403
    assert client.post(at("rag_reindexrun_delete", run.pk), {"post": "yes"}).status_code == 403
