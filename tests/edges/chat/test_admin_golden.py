"""An answer becomes a golden question by one click in the admin."""

from __future__ import annotations

from agents import models
from rag import models as rag_models
from tests.edges.admin_client import at, client_of
from tests.factories import UserFactory
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]


def test_an_answer_is_kept_with_what_it_quotes_and_a_bad_one_without(world: AgentWorld) -> None:
    world.use(CITED)
    row = world.ask("How often is the pump serviced?").row
    url = at("agents_message_golden", row.pk)
    assert client_of(UserFactory(permissions=["view_message"])).post(url).status_code == 403
    client = client_of(UserFactory(is_superuser=True))
    shown = client.get(at("agents_message_change", row.pk)).content.decode()
    assert url in shown and client.get(url).status_code == 405
    made = client.post(url)
    question = rag_models.GoldenQuestion.objects.get()
    assert made["Location"] == at("rag_goldenquestion_change", question.pk)
    assert (question.query, question.origin) == ("How often is the pump serviced?", "corrected")
    (target,) = question.targets.all()
    assert target.chunk_id == row.citations[0]["chunk_id"]
    question.delete()
    models.Message.objects.filter(pk=row.pk).update(feedback=-1, feedback_comment="It is weekly.")
    client.post(url)
    question = rag_models.GoldenQuestion.objects.get()
    assert (question.origin, question.note, question.targets.count()) == (
        "disliked",
        "It is weekly.",
        0,
    )
    asked = row.parent
    assert asked is not None
    client.post(at("agents_message_golden", asked.pk))
    assert rag_models.GoldenQuestion.objects.count() == 1
