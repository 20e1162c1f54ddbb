"""Texts of a file are embedded on the account of who brought it, and old costs are forgotten."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from rag import models
from rag.core.request_context import RequestContext, current_account, set_request
from rag.providers.procrastinate_queue import defer
from rag.services.access.api_keys import create_key
from rag.services.files.requeue import requeue_files
from rag.services.files.upload import FileAttributes, create_file
from rag.services.ingest.indexing import index_file
from rag.services.operations.recovery import purge_old_usage
from rag.services.stores.lifecycle import create_store
from rag.services.usage.budgets import period_start, save_budget
from rag.services.usage.ledger import charged_to, current_payer
from tests.edges.admin_client import use_words_embedder
from tests.factories import UserFactory
from tests.fakes.openai_server import OpenAIServer
from tests.integration.index_desk import ask

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = "The warranty of the pump lasts two years from delivery."


@pytest.fixture
def store(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[models.Store]:
    use_words_embedder(monkeypatch, settings)
    monkeypatch.undo()
    with OpenAIServer() as server:
        settings.RAG = {**settings.RAG, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        yield create_store(name="Remote", embedding_model="openai_compatible:emb")
    set_request(RequestContext())


def bring(store: models.Store, text: str = TEXT) -> models.File:
    content = io.BytesIO(text.encode())
    return create_file(
        store=store, name="pump.txt", content=content, attributes=FileAttributes()
    ).file


def job_of(file: models.File) -> dict[str, Any]:
    ((args,),) = ask(
        "SELECT args FROM procrastinate_jobs WHERE lock = %s AND status = 'todo'", f"file:{file.pk}"
    )
    ask("DELETE FROM procrastinate_jobs WHERE lock = %s RETURNING id", f"file:{file.pk}")
    return dict(json.loads(args))


def work(args: dict[str, Any]) -> models.File:
    """Do a job as the queue does, in a context that knows nothing of the request."""
    set_request(RequestContext(edge="job"))
    payer = {name: args[name] for name in ("user_id", "key_id") if name in args}
    with charged_to(**payer):
        index_file(file_id=args["file_id"])
    return models.File.objects.get(pk=args["file_id"])


def test_who_brings_a_file_pays_for_its_vectors(store: models.Store) -> None:
    user = UserFactory()
    key, _ = create_key(user=user, name="upload", rights=["read", "write"])
    set_request(RequestContext("api", user_id=user.pk, key_id=key.pk))
    args = job_of(bring(store))
    assert (args["user_id"], args["key_id"]) == (user.pk, key.pk)
    assert work(args).status == "completed"
    record = models.UsageRecord.objects.get(kind="embedding")
    assert (record.user, record.key, record.store) == (user, key, store)
    assert record.input_tokens == len(TEXT)
    # Reading it anew is paid by who wants that.
    set_request(RequestContext("api", user_id=UserFactory(username="eve").pk))
    requeue_files(store=store)
    assert models.File.objects.get().status == "processing"
    assert "key_id" not in (again := job_of(models.File.objects.get()))
    assert again["user_id"] != user.pk


def test_a_key_whose_budget_is_used_up_brings_nothing_more(store: models.Store) -> None:
    user = UserFactory()
    key, _ = create_key(user=user, name="upload", rights=["write"])
    save_budget(budget=models.Budget(key=key, period="day", max_tokens=20))
    set_request(RequestContext("api", user_id=user.pk, key_id=key.pk))
    first, second = bring(store), bring(store, "Seeds are borrowed until November.")
    jobs = [job_of(first), job_of(second)]
    assert work(jobs[0]).status == "completed"
    refused = work(jobs[1])
    assert refused.status == "error" and refused.error is not None
    assert "budget of 20 tokens a day" in refused.error["message"].format(**refused.error["params"])
    assert models.UsageRecord.objects.filter(kind="embedding").count() == 1


def test_who_is_gone_pays_nothing_and_nobody_is_nobody(store: models.Store) -> None:
    assert current_payer() == {}
    user = UserFactory()
    with charged_to(user_id=user.pk, key_id=10**9):
        assert (current_account().user_id, current_account().key_id) == (user.pk, None)
    user.delete()
    file = bring(store)
    assert set(job_of(file)) == {"file_id"}
    assert work({"file_id": file.pk, "user_id": 10**9, "key_id": 10**9}).status == "completed"
    record = models.UsageRecord.objects.get(kind="embedding")
    assert (record.user, record.key, record.store) == (None, None, store)


def test_a_job_queued_before_has_no_payer(store: models.Store) -> None:
    assert defer("rag.index_file", lock="file:7", file_id=7) is True
    assert defer("rag.index_file", lock="file:7", file_id=7, user_id=1, key_id=2) is False, (
        "the same file waits once, whoever wants it"
    )
    ask("DELETE FROM procrastinate_jobs RETURNING id")


def test_old_costs_go_and_those_of_this_month_stay(settings: Any) -> None:
    now = timezone.now()
    month = period_start(period="month", at=now)
    ages = {
        "today": now,
        "this month": month,
        "last month": month - timedelta(seconds=1),
        "old": month - timedelta(days=100),
    }
    for name, at in ages.items():
        row = models.UsageRecord.objects.create(kind="chat", provider="p", model=name)
        models.UsageRecord.objects.filter(pk=row.pk).update(created_at=at)

    def left() -> set[str]:
        return set(models.UsageRecord.objects.values_list("model", flat=True))

    assert purge_old_usage() == 0 and len(left()) == 4, "0 keeps them all"
    settings.RAG = {**settings.RAG, "USAGE_DAYS": 60}
    assert purge_old_usage() == 1 and left() == {"today", "this month", "last month"}
    settings.RAG = {**settings.RAG, "USAGE_DAYS": 1}
    assert purge_old_usage() <= 1 and {"today", "this month"} <= left()
