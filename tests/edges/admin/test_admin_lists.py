"""Lists stay cheap when they are long: no full counts, no heavy columns, no query per row."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.core.paginator import EmptyPage
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.admin.ui import paginator
from rag.admin.ui.paginator import EstimatingPaginator
from rag.admin.ui.scoped import ScopedAdmin
from rag.services.files.requeue import requeue_files
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
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
    "rag_store",
    "rag_file",
    "rag_chunk",
    "rag_chunkrevision",
    "rag_chunkconflict",
    "rag_querylog",
    "rag_goldenquestion",
    "rag_evaluationrun",
    "rag_usagerecord",
    "rag_auditentry",
    "rag_reindexrun",
    "rag_embeddingspace",
    "procrastinate_procrastinatejob",
)
VIEWER = (
    *EDITOR,
    "view_chunkconflict",
    "view_goldenquestion",
    "view_evaluationrun",
    "view_usagerecord",
    "view_auditentry",
    "view_reindexrun",
)


def fill(group: Any, n: int) -> None:
    for _ in range(n):
        store = StoreFactory(editors=[group])
        file = FileFactory(store=store)
        chunk = publish(file, "some text")[0]
        models.ChunkRevision.objects.create(
            chunk=chunk, revision=1, text="old", char_start=0, char_end=3, file_revision=1
        )
        models.ChunkConflict.objects.create(file=file, chunk=chunk, char_start=0, file_revision=1)
        QueryLogFactory(store_ids=[store.pk], user=UserFactory())
        question = models.GoldenQuestion.objects.create(store=store, query="what?")
        question.targets.create(chunk=chunk, file=file)
        models.EvaluationRun.objects.create(store=store, settings_hash=f"{store.pk}")
        for user in (UserFactory(), *group.user_set.all()):
            models.UsageRecord.objects.create(
                kind="ask", provider="p", model="m", user=user, store=store
            )
        models.ReindexRun.objects.create(store=store)
        requeue_files(store=store)


def statements(client: Client, name: str, **query: Any) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        response = client.get(at(f"{name}_changelist", **query))
    assert response.status_code == 200
    return [entry["sql"] for entry in captured.captured_queries]


@pytest.mark.parametrize("is_superuser", [True, False])
def test_more_rows_take_no_more_queries(
    is_superuser: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All on one page: a second one takes a query more.
    monkeypatch.setattr(ScopedAdmin, "list_per_page", 500)
    group = GroupFactory()
    user = UserFactory(is_superuser=is_superuser, groups=[group], permissions=VIEWER)
    client = client_of(user)
    fill(group, 2)
    few = {name: len(statements(client, name)) for name in LISTS}
    fill(group, 6)
    many = {name: len(statements(client, name)) for name in LISTS}
    assert many == few
    assert max(many.values()) <= 16, many


def test_lists_leave_the_heavy_columns_alone() -> None:
    group = GroupFactory()
    client = client_of(UserFactory(groups=[group], permissions=VIEWER))
    fill(group, 2)
    # Conflicts are few, and their list shows texts.
    for name in [name for name in LISTS if name != "rag_chunkconflict"]:
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
    monkeypatch.setattr(paginator, "MAX_LISTED_ROWS", 3)
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
    monkeypatch.setattr(paginator, "MAX_LISTED_ROWS", 10)
    with CaptureQueriesContext(connection) as captured:
        n = EstimatingPaginator(models.Chunk.objects.order_by("pk"), 3).count
    assert 11 <= n <= 120
    assert "LIMIT 11" in captured.captured_queries[0]["sql"]
    assert captured.captured_queries[1]["sql"].startswith("EXPLAIN (FORMAT JSON)")


def test_a_page_is_found_by_its_keys_and_is_the_same() -> None:
    ChunkFactory.create_batch(9, file=FileFactory())
    rows = models.Chunk.objects.select_related("file").order_by("-pk")
    with CaptureQueriesContext(connection) as captured:
        pages = [list(EstimatingPaginator(rows, 2).page(n)) for n in (1, 4, 5)]
    every = list(rows)
    assert pages == [every[:2], every[6:8], every[8:]]
    found = [entry["sql"] for entry in captured.captured_queries if "COUNT" not in entry["sql"]]
    assert ["JOIN" in sql for sql in found] == [False, True] * 3
    assert all("OFFSET" not in sql for sql in found[1::2])
    every_other = rows.distinct()
    assert list(EstimatingPaginator(every_other, 2).page(2)) == every[2:4]


def test_pages_end_where_reading_on_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    ChunkFactory.create_batch(7, file=FileFactory())
    rows = models.Chunk.objects.order_by("pk")
    assert (EstimatingPaginator(rows, 2).num_pages, EstimatingPaginator(rows, 2).n_shown) == (4, 7)
    monkeypatch.setattr(paginator, "MAX_LISTED_ROWS", 5)
    cut = EstimatingPaginator(rows, 2)
    assert (cut.num_pages, cut.n_shown) == (2, 4)
    assert cut.count >= 6
    with pytest.raises(EmptyPage):
        cut.page(3)
    assert EstimatingPaginator(rows, 50).num_pages == 1


def test_the_list_says_that_it_does_not_show_all(monkeypatch: pytest.MonkeyPatch) -> None:
    file = FileFactory()
    ChunkFactory.create_batch(3, file=file)
    client = client_of(UserFactory(is_superuser=True))
    sentence = "The pages show the first 2 rows. Search, filter or sort the list"
    assert sentence not in words(page(client, "rag_chunk_changelist"))
    monkeypatch.setattr(ScopedAdmin, "list_per_page", 2)
    monkeypatch.setattr(paginator, "MAX_LISTED_ROWS", 2)
    assert sentence in words(page(client, "rag_chunk_changelist"))
    assert client.get(at("rag_chunk_changelist", p=2)).status_code == 302
    assert sentence not in words(page(client, "rag_store_changelist"))


def test_chunks_are_listed_store_by_store_from_an_index() -> None:
    group = GroupFactory()
    stores = [StoreFactory(editors=[group]) for _ in range(2)]
    files = [FileFactory(store=stores[n]) for n in (1, 0, 1)]
    chunks = [publish(file, "first", "second") for file in files]
    publish(FileFactory(), "foreign")
    client = client_of(UserFactory(groups=[group], permissions=EDITOR))
    rows = client.get(at("rag_chunk_changelist")).context["cl"].result_list
    assert rows == [*chunks[1], *chunks[0], *chunks[2]]
    listed = [sql for sql in statements(client, "rag_chunk") if 'FROM "rag_chunk"' in sql]
    (sql,) = (sql for sql in listed if "ORDER BY" in sql)
    columns = [f.column for f in models.Chunk._meta.concrete_fields if f.column != "id"]
    copied = ["ordinal + 2 * n" if name == "ordinal" else name for name in columns]
    with connection.cursor() as cursor:
        # A planner that sees five rows sorts them: only of many, counted ones is its choice told.
        cursor.execute(
            f"INSERT INTO rag_chunk ({', '.join(columns)}) "
            f"SELECT {', '.join(copied)} FROM rag_chunk, generate_series(10, 1000) n"
        )
        cursor.execute("ANALYZE rag_chunk")
        cursor.execute(f"EXPLAIN {sql} LIMIT 50")
        plan = " ".join(line for (line,) in cursor.fetchall())
    assert "using rag_chunk_of_store" in plan
    assert "Presorted Key: rag_chunk.store_id, rag_chunk.file_id" in plan
    assert '"rag_store"."owner_id"' not in sql.split(" WHERE ")[1]


def test_no_list_reads_stores_to_know_whose_a_row_is() -> None:
    group = GroupFactory()
    fill(group, 2)
    client = client_of(UserFactory(groups=[group], permissions=EDITOR))
    for name in ("rag_file", "rag_chunk", "rag_chunkrevision", "procrastinate_procrastinatejob"):
        for sql in statements(client, name):
            if any(f'FROM "{table}"' in sql for table in ("rag_file", "rag_chunk")):
                assert "rag_store_editor_groups" not in sql, (name, sql)


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
    use_words_embedder(monkeypatch, settings)
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
