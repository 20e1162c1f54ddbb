"""The events of an answer do not give back what was deleted, hidden or restricted since."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.chat.answers.worker import AnswerWorker
from agents.core.chat_events import ChatEvent
from rag.core.access import Scope
from rag.services.chunks.add import delete_chunks
from rag.services.files.delete import delete_files
from rag.services.stores.lifecycle import delete_store
from tests.factories import GroupFactory
from tests.integration.agent_world import CITED, QUOTE, AgentWorld, world

__all__ = ["world"]


def follow(message: models.Message, after: int = 0) -> list[ChatEvent]:
    async def all_of() -> list[ChatEvent]:
        return [event async for event in AnswerWorker.replay(message.pk, after=after)]

    return async_to_sync(all_of)()


def answered(world: AgentWorld) -> models.Message:
    world.use(CITED)
    row: models.Message = world.ask("How often is the pump serviced?").row
    assert QUOTE in str(follow(row)) and len(follow(row)) > 5
    return row


def gone_file(world: AgentWorld) -> None:
    ids = list(world.store.files.values_list("pk", flat=True))
    assert delete_files(scope=Scope.operator(), file_ids=ids) == 2


def gone_chunk(world: AgentWorld) -> None:
    file = world.store.files.get(name="pump manual.txt")
    ids = list(file.chunks.values_list("pk", flat=True))
    delete_chunks(scope=Scope.operator(), chunk_ids=ids, by=None)


def gone_store(world: AgentWorld) -> None:
    delete_store(store=world.store)


def restricted(world: AgentWorld) -> None:
    world.store.owner = None
    world.store.save()
    for file in world.store.files.all():
        file.restricted_to.set([GroupFactory()])


@pytest.mark.parametrize("deed", [gone_file, gone_chunk, gone_store, restricted])
def test_whoever_comes_back_is_told_the_end_and_not_the_passages(
    world: AgentWorld, deed: Any
) -> None:
    row = answered(world)
    deed(world)
    is_kept = models.MessageEvent.objects.filter(message=row, kind="sources").exists()
    assert is_kept == (deed is restricted), "a deletion takes them at commit"
    for after in (0, 2):
        (last,) = follow(row, after)
        assert (last.kind, last.seq) == ("done", after + 1)
        assert QUOTE not in str(last) and "30 days" not in str(last)
        assert "[…]" in last.data["text"]
        assert [one["is_gone"] for one in last.data["citations"]] == [True]


def test_a_file_that_the_answer_did_not_look_at_takes_nothing_along(world: AgentWorld) -> None:
    row = answered(world)
    before = follow(row)
    looked = {one["chunk_id"] for one in row.sources}
    spare = world.store.files.exclude(chunks__in=looked)
    delete_files(scope=Scope.operator(), file_ids=list(spare.values_list("pk", flat=True)))
    assert follow(row) == before


def test_an_answer_that_rests_on_nothing_is_told_again_in_full(world: AgentWorld) -> None:
    world.use("Good morning.")
    row = world.ask("Hello!").row
    events = follow(row)
    assert "".join(one.data["text"] for one in events if one.kind == "delta") == "Good morning."


def test_a_session_that_is_gone_tells_nothing(world: AgentWorld) -> None:
    row = answered(world)
    row.session.delete()
    (last,) = follow(row)
    assert (last.kind, last.data) == (
        "stopped",
        {"text": "", "citations": [], "grounding": {}},
    )
