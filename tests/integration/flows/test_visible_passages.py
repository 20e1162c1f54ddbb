"""What a run of a flow has found does not give back what was deleted or hidden since."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.flows.definition.source_results import shape_results
from agents.flows.runs.read import run_summary
from agents.flows.runs.redact import redact_hits
from agents.flows.runs.worker import FlowWorker
from rag.core.access import Scope
from rag.core.hits import Hit
from rag.models import Chunk
from rag.services.access.api_keys import scope_of
from rag.services.chunks.add import delete_chunks
from rag.services.files.delete import delete_files
from rag.stages.ranking.postprocess import merge_neighbours
from tests.factories import FileFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Any:
    """Return a person, two files of theirs, and a run that found both."""
    user = UserFactory()
    store = StoreFactory(owner=user)
    first, second = FileFactory(store=store), FileFactory(store=store)
    publish(first, "The safe opens with 4711.")
    publish(second, "The door is red.")
    hits = [
        {
            "content": chunk.text,
            "chunk_id": chunk.pk,
            "highlights": [chunk.text.split()[2]],
            "score": 1.0,
        }
        for chunk in (first.chunks.get(), second.chunks.get())
    ]
    flow = models.Flow.objects.create(name="f", owner=user)
    version = models.FlowVersion.objects.create(flow=flow, number=1, yaml="")
    run = models.FlowRun.objects.create(
        version=version, user=user, status="done", state={"rag_results": {"docs": hits}}
    )
    data = {"result_key": "rag_results", "results": {"docs": hits}, "counts": {"docs": 2}}
    for seq, (kind, told) in enumerate((("rag_results", data), ("done", {"answer": "Yes."})), 1):
        models.RunEvent.objects.create(run=run, seq=seq, kind=kind, data=told)
    return user, first, run


def followed(run: models.FlowRun) -> list[Any]:
    async def all_of() -> list[Any]:
        return [event.data async for event in FlowWorker.replay(run.pk)]

    return async_to_sync(all_of)()


def told(run: models.FlowRun, user: Any) -> str:
    state = run_summary(run=run, scope=scope_of(user), is_whole=True)["state"]
    return str(state) + str(followed(run))


def test_what_is_there_is_told_as_it_was(desk: Any) -> None:
    user, _, run = desk
    assert followed(run) == [event.data for event in run.events.all()]
    assert told(run, user).count("4711") == 2


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_passage_goes_with_its_file_and_with_the_right_to_read_it(
    desk: Any, is_deleted: bool
) -> None:
    user, file, run = desk
    if is_deleted:
        delete_files(scope=Scope.operator(), file_ids=[file.pk])
    else:
        run.user = other = UserFactory()
        run.save()
        user = other
    assert "4711" not in told(run, user) and "opens" not in told(run, user)
    assert ("The door is red." in told(run, user)) is is_deleted
    found, done = followed(run)
    assert (found["counts"], done) == ({"docs": 2}, {"answer": "Yes."})
    assert found["results"]["docs"][0]["is_gone"] is True


def test_only_hits_are_looked_at() -> None:
    odd = [
        None,
        1,
        "content",
        {"chunk_id": 5},
        {"content": "x", "chunk_id": None},
        [[]],
        {"content": "x", "chunk_id": "7"},
    ]
    assert redact_hits(values=odd, scope=Scope.anonymous()) == odd
    deep = {"a": [{"b": {"content": "secret", "chunk_id": 10**9, "rank": 1}}]}
    (shown,) = redact_hits(values=[deep], scope=Scope.operator())
    assert shown["a"][0]["b"] == {
        "content": "",
        "highlights": [],
        "is_gone": True,
        "chunk_id": 10**9,
        "rank": 1,
    }
    assert deep["a"][0]["b"]["content"] == "secret"


def test_results_as_flows_have_them_by_default_lose_their_words_too(desk: Any) -> None:
    user, file, run = desk
    hits = [
        Hit(text=chunk.text, rank=1, chunk_id=chunk.pk, revision=1, page_first=3)
        for chunk in chunks_of(run)
    ]
    run.state = {"rag_results": {"docs": shape_results(hits, "structured")}}
    run.save()
    kept = run_summary(run=run, scope=scope_of(user), is_whole=True)["state"]
    assert kept == run.state
    delete_files(scope=Scope.operator(), file_ids=[file.pk])
    left = run_summary(run=run, scope=scope_of(user), is_whole=True)["state"]
    first, second = left["rag_results"]["docs"]
    assert first["content"] == "" and first["is_gone"] is True and first["metadata"]["page"] == 3
    assert second == run.state["rag_results"]["docs"][1]


@pytest.mark.parametrize("result_format", ["raw", "structured"])
def test_a_merged_passage_goes_with_any_of_its_parts(desk: Any, result_format: str) -> None:
    user, file, run = desk
    first, second = publish(file, "The vault is behind the mirror.", "The safe opens with 0815.")
    (hit,), _ = merge_neighbours(
        [
            Hit(
                text=chunk.text,
                rank=rank,
                file_id=file.pk,
                chunk_id=chunk.pk,
                revision=1,
                char_start=chunk.char_start,
                char_end=chunk.char_end,
            )
            for rank, chunk in ((1, first), (2, second))
        ],
        lambda _, start, end: file.canonical_text[start:end],
    )
    shaped = shape_results([hit], result_format)
    run.state = {"rag_results": {"docs": shaped}}
    run.save()
    run.events.filter(seq=1).update(data={"results": {"docs": shaped}})
    assert told(run, user).count("0815") == 2
    delete_chunks(scope=Scope.operator(), chunk_ids=[second.pk], by=None)
    assert "0815" not in told(run, user) and told(run, user).count("'is_gone': True") == 2


def test_an_item_of_another_source_is_no_passage_of_ours() -> None:
    item = {"content": "of a wiki", "score": None, "metadata": {"chunk_id": 10**9, "lang": "en"}}
    assert redact_hits(values=[item], scope=Scope.anonymous()) == [item]


def chunks_of(run: models.FlowRun) -> list[Any]:
    ids = [hit["chunk_id"] for hit in run.state["rag_results"]["docs"]]
    return [Chunk.objects.get(pk=pk) for pk in ids]
