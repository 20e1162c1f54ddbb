"""Lists of agents and flows take as many statements for many rows as for one, and read no texts."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents import models
from tests.edges.api_client import client_for, ok
from tests.factories import ChunkFactory, FileFactory, GroupFactory, StoreFactory, UserFactory

pytestmark = pytest.mark.django_db


def agent(number: int, owner: Any, group: Any) -> None:
    row = models.Agent.objects.create(name=f"a{number}", owner=owner)
    row.stores.add(StoreFactory(owner=owner))
    row.reader_groups.add(group)


def flow(number: int, owner: Any, group: Any) -> None:
    row = models.Flow.objects.create(name=f"f{number}", owner=owner)
    row.runner_groups.add(group)
    for version in (1, 2, 3):
        models.FlowVersion.objects.create(
            flow=row, number=version, yaml="name: f", is_active=version == 2
        )


def listed(client: Any, place: str) -> tuple[list[Any], list[str]]:
    with CaptureQueriesContext(connection) as asked:
        rows = ok(client.get(f"/api/{place}"))["results"]
    return [row for row in rows if row["name"][1:].isdigit()], [one["sql"] for one in asked]


@pytest.mark.parametrize(("place", "make"), [("agents", agent), ("flows", flow)])
@pytest.mark.parametrize("is_owner", [True, False])
def test_many_rows_take_no_more_statements_than_one(place: str, make: Any, is_owner: bool) -> None:
    owner, group = UserFactory(), GroupFactory()
    reader = UserFactory(groups=[group])
    client = client_for(owner if is_owner else reader)
    make(0, owner, group)
    ok(client.get(f"/api/{place}"))
    first, asked = listed(client, place)
    for number in range(1, 6):
        make(number, owner, group)
    rows, asked_for_six = listed(client, place)
    assert (len(first), len(rows)) == (1, 6)
    assert len(asked_for_six) == len(asked)
    assert not any('"agents_flowversion"."yaml"' in sql for sql in asked_for_six)


def test_the_active_version_is_told_wherever_a_flow_is_read() -> None:
    owner = UserFactory()
    client = client_for(owner)
    flow(0, owner, GroupFactory())
    models.Flow.objects.create(name="f1", owner=owner)
    (with_one, without), _ = listed(client, "flows")
    assert (with_one["active_version"], without["active_version"]) == (2, None)
    assert ok(client.get("/api/flows/f0"))["active_version"] == 2
    assert ok(client.get("/api/flows/f1"))["active_version"] is None


def test_runs_are_listed_without_the_texts_of_their_versions() -> None:
    owner = UserFactory()
    client = client_for(owner)
    flow(0, owner, GroupFactory())
    version = models.FlowVersion.objects.get(number=2)
    first = models.FlowRun.objects.create(version=version, user=owner, status="done")
    ok(client.get("/api/flows/f0/runs"))
    with CaptureQueriesContext(connection) as asked_for_one:
        ok(client.get("/api/flows/f0/runs"))
    for _ in range(3):
        models.FlowRun.objects.create(
            version=version,
            user=owner,
            status="done",
            replay_of=first,
            state={"flow_msgs": [{"role": "assistant", "content": "Yes."}], "edges_var": {"a": 1}},
        )
    with CaptureQueriesContext(connection) as asked:
        runs = ok(client.get("/api/flows/f0/runs"))["results"]
    assert [(one["answer"], one["variables"]) for one in runs] == [("Yes.", {"a": 1})] * 3 + [
        ("", {})
    ]
    assert {one["replay_of"] for one in runs} == {str(first.key), None}
    assert len(asked) == len(asked_for_one)
    texts = ('"agents_flowversion"."yaml"', '"agents_flowversion"."prompts"')
    assert not any(text in one["sql"] for one in asked for text in texts)


def test_runs_with_passages_are_judged_at_once_and_each_by_its_own() -> None:
    owner = UserFactory()
    client = client_for(owner)
    flow(0, owner, GroupFactory())
    version = models.FlowVersion.objects.get(number=2)
    files = [FileFactory(store=StoreFactory(owner=who)) for who in (owner, UserFactory())]
    chunks = [ChunkFactory(file=file) for file in files]

    def run(chunk: Any, *, has_ended: bool = True) -> None:
        said = f"The pump number {chunk.pk} is serviced every 30 days."
        passage = {"doc_id": "doc_01", "chunk_id": chunk.pk, "content": said, "revision": 1}
        row = models.FlowRun.objects.create(
            version=version,
            user=owner,
            status="done",
            answer=said,
            passages=[passage] if has_ended else [],
        )
        found = {"passages": [passage]}
        models.RunEvent.objects.create(run=row, seq=1, kind="rag_results", data=found)

    def statements() -> int:
        with CaptureQueriesContext(connection) as asked:
            ok(client.get("/api/flows/f0/runs"))
        return len(asked)

    run(chunks[0])
    run(chunks[0], has_ended=False)
    statements()
    asked_for_two = statements()
    for chunk in (*chunks, *chunks):
        run(chunk)
    run(chunks[1], has_ended=False)
    assert statements() == asked_for_two
    runs = ok(client.get("/api/flows/f0/runs"))["results"]
    assert ["serviced" in one["answer"] for one in runs] == [
        False,
        False,
        True,
        False,
        True,
        True,
        True,
    ]
    passages = [[bool(each["content"]) for each in one["passages"]] for one in runs]
    assert passages == [[], [False], [True], [False], [True], [], [True]]
