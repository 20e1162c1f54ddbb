"""Lists stay cheap when they are long: no full counts, no heavy columns, no query per row."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.admin import paginator
from rag.admin.paginator import EstimatingPaginator
from rag.services.reindex import reindex
from tests.edges.admin_desk import at, client_of, use_words
from tests.factories import (
    EDITOR,
    ChunkFactory,
    FileFactory,
    GroupFactory,
    QueryLogFactory,
    StoreFactory,
    UserFactory,
    publish,
)

pytestmark = pytest.mark.django_db
LISTS = (
    "rag_store", "rag_file", "rag_chunk", "rag_chunkrevision", "rag_querylog", "rag_embeddingspace",
    "procrastinate_procrastinatejob",
)  # fmt: skip


def fill(group: Any, n: int) -> None:
    for _ in range(n):
        store = StoreFactory(editors=[group])
        file = FileFactory(store=store)
        chunk = publish(file, "some text")[0]
        models.ChunkRevision.objects.create(
            chunk=chunk, revision=1, text="old", char_start=0, char_end=3, file_revision=1
        )
        QueryLogFactory(store_ids=[store.pk], user=UserFactory())
        reindex(store=store)


def statements(client: Client, name: str, **query: Any) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        response = client.get(at(f"{name}_changelist", **query))
    assert response.status_code == 200
    return [entry["sql"] for entry in captured.captured_queries]


@pytest.mark.parametrize("is_superuser", [True, False])
def test_more_rows_take_no_more_queries(is_superuser: bool) -> None:
    group = GroupFactory()
    user = UserFactory(is_superuser=is_superuser, groups=[group], permissions=EDITOR)
    client = client_of(user)
    fill(group, 2)
    few = {name: len(statements(client, name)) for name in LISTS}
    fill(group, 6)
    many = {name: len(statements(client, name)) for name in LISTS}
    assert many == few
    assert max(many.values()) <= 16, many


def test_lists_leave_the_heavy_columns_alone() -> None:
    group = GroupFactory()
    client = client_of(UserFactory(groups=[group], permissions=EDITOR))
    fill(group, 2)
    for name in LISTS:
        for sql in statements(client, name):
            for column in (
                '"rag_file"."canonical_text"',
                '"rag_file"."pages",',
                '"rag_chunk"."text",',
            ):
                assert column not in sql.split(" FROM ")[0].replace(
                    'LEFT("rag_chunk"."text",', ""
                ), (name, sql)


def test_no_list_counts_more_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paginator, "EXACT_UP_TO", 3)
    client = client_of(UserFactory(is_superuser=True))
    fill(GroupFactory(), 5)
    for name in LISTS:
        counts = [
            sql for sql in statements(client, name) if "COUNT(*)" in sql and "GROUP BY" not in sql
        ]
        assert counts, name
        assert all("LIMIT" in sql for sql in counts), (name, counts)


def test_the_count_is_exact_while_it_is_cheap() -> None:
    ChunkFactory.create_batch(7, file=FileFactory())
    assert EstimatingPaginator(models.Chunk.objects.all(), 3).count == 7
    assert EstimatingPaginator(models.Chunk.objects.filter(ordinal__lt=0), 3).count == 0
    assert EstimatingPaginator([1, 2], 3).count == 2


def test_beyond_that_it_is_the_planner_s(monkeypatch: pytest.MonkeyPatch) -> None:
    ChunkFactory.create_batch(60, file=FileFactory())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE rag_chunk")
    monkeypatch.setattr(paginator, "EXACT_UP_TO", 10)
    with CaptureQueriesContext(connection) as captured:
        n = EstimatingPaginator(models.Chunk.objects.order_by("pk"), 3).count
    assert 11 <= n <= 120
    assert "LIMIT 11" in captured.captured_queries[0]["sql"]
    assert captured.captured_queries[1]["sql"].startswith("EXPLAIN (FORMAT JSON)")


def test_a_far_page_is_found_by_its_keys_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ChunkFactory.create_batch(9, file=FileFactory())
    rows = models.Chunk.objects.select_related("file").order_by("-pk")
    near = [list(EstimatingPaginator(rows, 2).page(n)) for n in (1, 4, 5)]
    monkeypatch.setattr(paginator, "EXACT_UP_TO", 3)
    counted = EstimatingPaginator(rows, 2)
    counted.count = 9
    with CaptureQueriesContext(connection) as captured:
        far = [list(counted.page(n)) for n in (1, 4, 5)]
    assert far == near
    assert [len(page) for page in far] == [2, 2, 1]
    assert ["OFFSET" in entry["sql"] for entry in captured.captured_queries] == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert "JOIN" not in captured.captured_queries[1]["sql"]


def test_a_page_past_the_end_does_not_crash() -> None:
    client = client_of(UserFactory(is_superuser=True))
    ChunkFactory()
    response = client.get(at("rag_chunk_changelist", p=999), follow=True)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "query",
    [{"store": "1 OR 1=1"}, {"q": "'; DROP TABLE rag_chunk; --"}, {"o": "9.-9"}, {"live": "?"}],
)
def test_odd_addresses_do_not_crash(query: dict[str, str], monkeypatch: Any, settings: Any) -> None:
    use_words(monkeypatch, settings)
    client = client_of(UserFactory(is_superuser=True))
    publish(FileFactory(), "text")
    for name in ("rag_store", "rag_file", "rag_chunk"):
        response = client.get(at(f"{name}_changelist"), query, follow=True)
        assert response.status_code == 200, name


@pytest.mark.parametrize("query", [{"_facets": "True"}, {"\0": "a"}, {"a\0": ""}])
def test_no_list_of_the_desk_fails_on_what_an_address_says(query: dict[str, str]) -> None:
    client = client_of(UserFactory(is_superuser=True))
    publish(FileFactory(), "text")
    for model in admin.site._registry:
        response = client.get(at(f"{model._meta.label_lower.replace('.', '_')}_changelist"), query)
        assert response.status_code in (200, 302), model


def test_no_list_of_the_desk_looks_for_a_nul() -> None:
    client = client_of(UserFactory(is_superuser=True))
    for model in admin.site._registry:
        texts = [
            f for f in model._meta.fields if f.get_internal_type() in ("CharField", "TextField")
        ]
        address = at(f"{model._meta.label_lower.replace('.', '_')}_changelist")
        for name in [*(field.name for field in texts), "store", "file", "live", "q"]:
            for suffix in ("", "__exact"):
                response = client.get(address, {name + suffix: "a\0"})
                # 400: a field that no filter of this list may ask for.
                assert response.status_code in (200, 302, 400), (model, name)
