"""A database that is away for a moment costs nobody the sign of life that keeps work their own."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from agents import models
from agents.chat.answers import event_log as chat_claim
from agents.chat.answers.control import stop_answer
from agents.runtime.worker import renew_leases
from rag.core.access import Scope
from rag.core.errors import ConflictError
from rag.models import Chunk
from tests.factories import ChunkFactory, UserFactory

pytestmark = pytest.mark.django_db
FAULTS = pytest.mark.parametrize(
    "fault", [OperationalError("the database is starting up"), InterfaceError("closed")]
)


def away(fault: Exception) -> Any:
    """Return what makes the connection fail as that of a server that restarts."""

    def fail(*_: Any) -> Any:
        raise fault

    return connection.execute_wrapper(fail)


@pytest.fixture
def run() -> models.FlowRun:
    flow = models.Flow.objects.create(name="f")
    version = models.FlowVersion.objects.create(flow=flow, number=1, yaml="")
    return models.FlowRun.objects.create(version=version, worker=uuid.uuid4())


@pytest.fixture
def answer() -> models.Message:
    session = models.Session.objects.create()
    return models.Message.objects.create(
        session=session, role="assistant", status="running", worker=uuid.uuid4()
    )


@FAULTS
def test_a_run_stays_ones_own(run: models.FlowRun, fault: Exception) -> None:
    with transaction.atomic(), away(fault):
        assert renew_leases({run: None}) == {run: "running"}
    assert renew_leases({run: None}) == {run: "running"}
    models.FlowRun.objects.update(worker=uuid.uuid4())
    assert renew_leases({run: None}) == {}, "what another took is told as soon as it can be"


@FAULTS
def test_an_answer_is_written_on(answer: models.Message, fault: Exception) -> None:
    with transaction.atomic(), away(fault):
        assert renew_leases({answer: None}) == {answer: "running"}
    models.Message.objects.update(status="stopped")
    assert renew_leases({answer: None}) == {answer: "stopped"}
    models.Message.objects.all().delete()
    assert renew_leases({answer: None}) == {}


TOLD: list[tuple[str, dict[str, Any]]] = [
    ("start", {}),
    ("sources", {"sources": [{"doc_id": "doc_01", "chunk_id": 7}]}),
    ("delta", {"text": "Let me look that up"}),
    ("replace", {"text": "", "citations": []}),
    ("delta", {"text": "Every 30 days.[1]"}),
    ("citation", {"number": 1, "doc_id": "doc_01", "chunk_id": 7, "claim": "Every 30 days."}),
]


@pytest.fixture
def dead(answer: models.Message) -> models.Message:
    """Return an answer whose process gave its last sign a minute ago, in mid-sentence."""
    answer.seen_at = timezone.now() - timedelta(seconds=60)
    answer.save()
    chunk_id = ChunkFactory().pk
    told = json.loads(json.dumps(TOLD).replace('"chunk_id": 7', f'"chunk_id": {chunk_id}'))
    for seq, (kind, data) in enumerate(told, start=1):
        models.MessageEvent.objects.create(message=answer, seq=seq, kind=kind, data=data)
    return answer


def test_what_a_dead_process_had_told_is_kept_as_it_was_shown(dead: models.Message) -> None:
    assert chat_claim.fail_abandoned() == 1
    dead.refresh_from_db()
    assert (dead.status, dead.content) == ("error", "Every 30 days.[1]")
    # By these its words go when the passage may not be read any more.
    assert [one["chunk_id"] for one in (*dead.citations, *dead.sources)] == [
        Chunk.objects.get().pk
    ] * 2
    last = dead.events.order_by("seq").last()
    assert last is not None and last.seq == len(TOLD) + chat_claim.GAP
    assert (last.kind, last.data["code"], last.data["text"]) == (
        "error",
        "interrupted",
        "Every 30 days.[1]",
    )


def test_an_answer_of_a_dead_process_is_not_stopped_but_kept(dead: models.Message) -> None:
    dead.session.user = user = UserFactory()
    dead.session.save()
    with pytest.raises(ConflictError):
        async_to_sync(stop_answer)(key=str(dead.key), scope=Scope(user_id=user.pk))
    dead.refresh_from_db()
    assert (dead.status, dead.content) == ("error", "Every 30 days.[1]")
