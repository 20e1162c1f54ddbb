"""Webhooks: told, signed, retried; a target that hangs, refuses, redirects inward or never ends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.utils import timezone

from rag import models
from rag.providers.procrastinate_queue import Job
from rag.services import webhooks
from rag.services.ingest.indexing import index_file
from rag.services.webhooks import (
    announce_answer,
    announce_event,
    deliver_webhook,
    purge_deliveries,
    queue_due_deliveries,
    retry_deliveries,
    webhook_secret,
)
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory
from tests.fakes.loopback import Fault, LoopbackServer, Reply

pytestmark = pytest.mark.django_db
EVENT = models.Webhook.Event
DATA = {"file": 7, "name": "泵.txt", "store": "manuals"}


@pytest.fixture
def target(settings: Any) -> Iterator[LoopbackServer]:
    settings.RAG = settings.RAG | {"FETCH_HOSTS": ("127.0.0.1",)}
    with LoopbackServer() as server:
        server.route("POST", "/hook", lambda call: Reply({"ok": True}))
        yield server


@pytest.fixture
def hook(target: LoopbackServer) -> models.Webhook:
    url = f"{target.origin}/hook"
    return models.Webhook.objects.create(name="ours", url=url, events=list(EVENT.values))


def later(hook: models.Webhook, **time: float) -> None:
    """Let the time go by for what waits."""
    gone = timedelta(**time)
    for row in hook.deliveries.exclude(next_at=None):
        row.next_at -= gone
        row.save()
    hook.refresh_from_db()
    if hook.held_until:
        hook.held_until -= gone
        hook.save()


def test_an_event_is_sent_once_and_signed(hook: models.Webhook, target: LoopbackServer) -> None:
    models.Webhook.objects.create(name="other", url=hook.url, events=[EVENT.ANSWER_GIVEN])
    models.Webhook.objects.create(
        name="off", url=hook.url, events=[EVENT.FILE_READY], is_enabled=False
    )
    announce_event(event=EVENT.FILE_READY, data=DATA)
    announce_event(event=EVENT.FILE_READY, data=DATA | {"file": 8})
    (job,) = Job.objects.filter(task_name="rag.deliver_webhook")
    assert job.args == {"webhook_id": hook.pk} and job.queue_name == "hooks"
    deliver_webhook(webhook_id=hook.pk)
    deliver_webhook(webhook_id=hook.pk)
    first, second = target.calls
    assert first.json["type"] == "file.ready" and first.json["data"] == DATA
    assert second.json["data"]["file"] == 8
    secret = base64.b64decode(webhook_secret(webhook=hook).removeprefix("whsec_"))
    told = first.headers
    signed = f"{told['webhook-id']}.{told['webhook-timestamp']}.".encode() + first.body
    digest = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    assert told["webhook-signature"] == f"v1,{digest}"
    assert abs(int(told["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    assert len({call.headers["webhook-id"] for call in target.calls}) == 2
    assert set(hook.deliveries.values_list("n_attempts", "next_at")) == {(1, None)}


def test_a_target_that_fails_gets_all_of_it_later(
    hook: models.Webhook, target: LoopbackServer
) -> None:
    target.fail(Fault(status=503, times=2))
    for file in range(3):
        announce_event(event=EVENT.FILE_READY, data={"file": file})
    deliver_webhook(webhook_id=hook.pk)
    assert len(target.calls) == 1, "the others wait with it"
    announce_event(event=EVENT.FILE_READY, data={"file": 3})
    deliver_webhook(webhook_id=hook.pk)
    assert len(target.calls) == 1
    row = hook.deliveries.earliest("pk")
    assert row.error["params"]["status"] == "503" and row.n_attempts == 1
    Job.objects.all().delete()
    later(hook, seconds=9)
    queue_due_deliveries()
    assert not Job.objects.exists()
    later(hook, seconds=2)
    queue_due_deliveries()
    assert Job.objects.filter(task_name="rag.deliver_webhook").count() == 1
    deliver_webhook(webhook_id=hook.pk)
    later(hook, seconds=61)
    deliver_webhook(webhook_id=hook.pk)
    got = [call.json["data"]["file"] for call in target.calls]
    assert sorted(got[2:]) == [0, 1, 2, 3] and not hook.deliveries.exclude(next_at=None).exists()


def test_what_is_given_up_can_be_sent_again(hook: models.Webhook, target: LoopbackServer) -> None:
    target.fail(Fault(status=410, times=1 + len(webhooks.WAITS_S)))
    announce_event(event=EVENT.FILE_READY, data=DATA)
    for _ in range(1 + len(webhooks.WAITS_S)):
        deliver_webhook(webhook_id=hook.pk)
        later(hook, days=1)
    row = hook.deliveries.get()
    assert (row.n_attempts, row.next_at, row.delivered_at) == (8, None, None)
    assert retry_deliveries(ids=[row.pk]) == 1
    deliver_webhook(webhook_id=hook.pk)
    row.refresh_from_db()
    assert row.delivered_at and row.error is None and retry_deliveries(ids=[row.pk]) == 0
    assert purge_deliveries(older_than_days=1) == 0 and purge_deliveries(older_than_days=0) == 1


def test_who_refuses_one_event_gets_the_next(hook: models.Webhook, target: LoopbackServer) -> None:
    target.fail(Fault(status=400))
    announce_event(event=EVENT.FILE_READY, data={"file": 1})
    announce_event(event=EVENT.FILE_READY, data={"file": 2})
    deliver_webhook(webhook_id=hook.pk)
    assert hook.deliveries.filter(delivered_at=None).get().data == {"file": 1}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/hang", "0.3 s"),
        ("/inward/302", "public internet"),
        ("/inward/307", "another server"),
        ("/flood", "larger than"),
    ],
)
def test_a_hostile_target_is_bounded_and_told(
    hook: models.Webhook,
    target: LoopbackServer,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    reason: str,
) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.3)
    inward = {"Location": "http://169.254.169.254/latest/meta-data"}
    target.route("POST", "/inward/.*", lambda call: Reply(b"", int(call.path[-3:]), inward))
    target.route("POST", "/hang", lambda call: Reply(events=[60.0]))
    target.route("POST", "/flood", lambda call: Reply(events=[b"x" * 60_000] * 1000))
    hook.url = f"{target.origin}{path}"
    hook.save()
    announce_event(event=EVENT.FILE_READY, data=DATA)
    deliver_webhook(webhook_id=hook.pk)
    row = hook.deliveries.get()
    told = row.error["message"].format(**row.error["params"])
    assert reason in told and row.next_at is not None and row.delivered_at is None


def test_events_come_of_files_and_answers(
    hook: models.Webhook, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    use_words_embedder(monkeypatch, settings)
    words = ContentFile(b"The pump is serviced every 30 days.", name="pump")
    file = FileFactory(name="pump.txt", content=words)
    index_file(file_id=file.pk)
    for outcome in ("answered", "partial", "not_found", "unavailable"):
        announce_answer(outcome=outcome, data={"stores": ["manuals"]})
    told = [(one.event, one.data) for one in hook.deliveries.order_by("pk")]
    assert told[0] == (
        "file.ready",
        {"file": file.pk, "name": "pump.txt", "store": file.store.slug},
    )
    assert [event for event, _ in told[1:]] == ["answer.given", "answer.given", "answer.not_found"]
    assert json.dumps(told) and told[-1][1]["outcome"] == "not_found"
