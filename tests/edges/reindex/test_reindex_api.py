"""POST /api/reindex and what follows, as an application does it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.services.reindex.worker import run_reindex
from rag.stages.text.terms import VERSION
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.factories import GroupFactory, UserFactory
from tests.fakes.model_plugins import let_be_remote
from tests.integration.move_world import NEW, filled_store, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]


@pytest.fixture
def desk() -> tuple[KeyClient, models.Store]:
    """Return a client of the store's owner, and the store."""
    owner = UserFactory(permissions=["change_store"])
    return client_for(owner), filled_store(20, owner=owner, slug="house")


def test_a_run_is_queued_once_and_its_progress_is_told(desk: Any) -> None:
    client, _store = desk
    told = ok(client.send("post", "/api/reindex", {"store": "house", "what": "lexical"}), 202)
    assert (told["is_new"], told["run"]["state"]) == (True, "waiting")
    again = ok(client.send("post", "/api/reindex", {"store": "house", "what": "lexical"}), 202)
    assert (again["is_new"], again["run"]["id"]) == (False, told["run"]["id"])
    jobs = ProcrastinateJob.objects.filter(task_name="rag.reindex_run")
    assert [job.args for job in jobs] == [{"run_id": told["run"]["id"]}]
    run_reindex(run_id=told["run"]["id"])
    run = ok(client.get(f"/api/reindex/{told['run']['id']}"))
    assert (run["state"], run["n_done"], run["n_total"], run["error"]) == ("done", 20, 20, "")
    assert [row["id"] for row in ok(client.get("/api/reindex?store=house"))] == [run["id"]]


def test_a_dry_run_tells_the_cost_and_does_nothing(
    desk: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _store = desk
    let_be_remote(monkeypatch, "embedding", "words")
    settings.RAG = settings.RAG | {"PRICES": {"words:*": {"input": 2, "currency": "EUR"}}}
    body = {"store": "house", "what": "embeddings", "model": NEW, "dry_run": True}
    told = ok(client.send("post", "/api/reindex", body))
    estimate = told["estimate"]
    assert (told["run"], estimate["n_files"], estimate["n_chunks"]) == (None, 2, 20)
    assert estimate["n_tokens"] > 100
    assert estimate["cost"] == pytest.approx(2e-6 * estimate["n_tokens"])
    assert (estimate["currency"], estimate["disk_bytes"]) == ("EUR", 20 * (2 * 32 + 120))
    # The words stand for a service here, whose speed is known when it is asked.
    assert estimate["seconds"] is None
    assert not models.ReindexRun.objects.exists()
    words = {"store": "house", "what": "lexical", "dry_run": True}
    assert 0 < ok(client.send("post", "/api/reindex", words))["estimate"]["seconds"] < 5
    models.Store.objects.update(terms_version=VERSION)
    stale = {**words, "stale_only": True}
    assert ok(client.send("post", "/api/reindex", stale))["estimate"]["n_chunks"] == 0


def test_a_move_is_steered(desk: Any) -> None:
    client, store = desk
    body = {"store": "house", "what": "embeddings", "model": NEW, "swap": False}
    run_id = ok(client.send("post", "/api/reindex", body), 202)["run"]["id"]
    run_reindex(run_id=run_id)
    address = f"/api/reindex/{run_id}"
    run = ok(client.get(address))
    assert run["state"] == "refused"
    assert "no golden questions" in run["error"]
    refused = client.send("post", f"{address}/swap")
    assert refused.status_code >= 400
    assert "refused" in refused.json()["error"]["message"]
    run = ok(client.send("post", f"{address}/force"))
    assert run["state"] == "swapped"
    assert run["report"]["forced_by"] == store.owner.username
    assert error_of(client.send("post", f"{address}/cancel"), 409)
    assert ok(client.send("post", f"{address}/rollback"))["state"] == "ready"
    assert ok(client.send("post", f"{address}/swap"))["state"] == "swapped"
    assert ok(client.send("post", f"{address}/retire"))["state"] == "swapped"
    ok(client.send("post", f"{address}/rollback"))
    assert ok(client.send("post", f"{address}/cancel"))["state"] == "cancelled"
    assert error_of(client.send("post", f"{address}/explode"), 422)


def test_who_may_not_change_the_store_sees_no_run_of_it(desk: Any) -> None:
    client, store = desk
    run_id = ok(client.send("post", "/api/reindex", {"store": "house"}), 202)["run"]["id"]
    readers = GroupFactory()
    store.reader_groups.add(readers)
    reader = client_for(UserFactory(groups=[readers], permissions=["change_store"]))
    stranger = client_for(UserFactory(permissions=["change_store"]))
    error_of(reader.send("post", "/api/reindex", {"store": "house"}), 403)
    error_of(stranger.send("post", "/api/reindex", {"store": "house"}), 404)
    for other in (reader, stranger):
        error_of(other.get(f"/api/reindex/{run_id}"), 404)
        error_of(other.send("post", f"/api/reindex/{run_id}/cancel"), 404)
        assert ok(other.get("/api/reindex")) == []


def test_a_key_without_write_and_an_account_without_permission_are_refused(desk: Any) -> None:
    _client, store = desk
    error_of(
        client_for(store.owner, rights=["read"]).send("post", "/api/reindex", {"store": "house"}),
        403,
    )
    store.owner.user_permissions.remove(Permission.objects.get(codename="change_store"))
    error_of(client_for(store.owner).send("post", "/api/reindex", {"store": "house"}), 403)


@pytest.mark.parametrize(
    "body",
    [
        {"store": "house", "what": "everything"},
        {"store": "house", "workers": 0},
        {"store": "house", "data": "/etc"},
        {"store": "house", "what": "parse", "model": NEW},
        {"store": "house", "filter": "lang ="},
        {"store": "house", "per_second": -1},
        {"store": "house", "what": "embeddings", "model": "nobody:x"},
        {"store": "house", "what": "embeddings", "model": "words"},
    ],
)
def test_bad_orders_are_told(desk: Any, body: dict[str, Any]) -> None:
    client, _ = desk
    assert client.send("post", "/api/reindex", body).status_code in (400, 422)
    assert not models.ReindexRun.objects.exists()


def test_files_and_filters_choose(desk: Any) -> None:
    client, store = desk
    first, second = store.files.order_by("pk")
    models.File.objects.filter(pk=second.pk).update(metadata={"lang": "zh"})
    other = filled_store(2).files.first()
    assert other is not None
    body = {"store": "house", "what": "lexical", "files": [first.pk, other.pk]}
    run_id = ok(client.send("post", "/api/reindex", body), 202)["run"]["id"]
    assert models.ReindexRun.objects.get(pk=run_id).file_ids == [first.pk]
    run_reindex(run_id=run_id)
    assert ok(client.get(f"/api/reindex/{run_id}"))["n_done"] == 10
    body = {"store": "house", "what": "lexical", "filter": 'lang = "zh"'}
    run_id = ok(client.send("post", "/api/reindex", body), 202)["run"]["id"]
    assert models.ReindexRun.objects.get(pk=run_id).file_ids == [second.pk]


def test_swapping_a_refused_move_is_a_conflict_with_the_reason(desk: Any) -> None:
    client, _store = desk
    body = {"store": "house", "what": "embeddings", "model": NEW, "swap": False}
    run_id = ok(client.send("post", "/api/reindex", body), 202)["run"]["id"]
    run_reindex(run_id=run_id)
    error = error_of(client.send("post", f"/api/reindex/{run_id}/swap"), 409)
    assert error["code"] == "conflict"
    assert "no golden questions" in error["message"]
    assert "Swap by force" in error["hint"]
