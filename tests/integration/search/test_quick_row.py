"""A row that nobody waits for: whole, of its table alone, and only its own transaction hurries."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from rag import models
from rag.providers.postgres.db import connections
from rag.providers.postgres.db.connections import fetch_planned, insert_without_fsync
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def line(query: str) -> models.QueryLog:
    return models.QueryLog(
        kind="ask",
        query=query,
        user=UserFactory(),
        store_ids=[3, 1],
        settings_hash="h",
        mode="hybrid",
        top_k=5,
        chunk_ids=[9, 8],
        best_score=0.5,
        timings_ms={"total": 1.25},
        answer='a "b" {c} %s',
        citations=[{"quote": "引文", "page": None}],
    )


def test_every_field_is_kept_as_the_model_would_keep_it() -> None:
    before = timezone.now()
    row = line("百分号 % %s {x} 'quoted'")
    kept = models.QueryLog.objects.get(pk=insert_without_fsync(row))
    for field in ("kind", "query", "user_id", "store_ids", "mode", "top_k", "chunk_ids", "answer"):
        assert getattr(kept, field) == getattr(row, field), field
    assert kept.citations == [{"quote": "引文", "page": None}]
    assert (kept.best_score, kept.confidence, kept.timings_ms) == (0.5, None, {"total": 1.25})
    assert before <= kept.created_at <= timezone.now()


def test_ids_follow_each_other() -> None:
    first, second = insert_without_fsync(line("one")), insert_without_fsync(line("two"))
    assert second > first
    assert list(models.QueryLog.objects.order_by("pk").values_list("query", flat=True)) == [
        "one",
        "two",
    ]


def test_it_is_one_statement_planned_once(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    statements: list[str] = []

    def fetch(statement: str, params: Any) -> list[tuple[Any, ...]]:
        statements.append(statement)
        return fetch_planned(statement, params)

    monkeypatch.setattr(connections, "fetch_planned", fetch)
    rows = [line("one"), line("two")]
    with django_assert_num_queries(0):
        for row in rows:
            insert_without_fsync(row)
    assert len(statements) == 2
    assert len(set(statements)) == 1


@pytest.mark.django_db(transaction=True)
def test_only_its_own_transaction_does_not_wait() -> None:
    def waits() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return str(cursor.fetchone()[0])

    usual = waits()
    with transaction.atomic():
        insert_without_fsync(line("within"))
        assert waits() == "off"
    assert waits() == usual
    insert_without_fsync(line("alone"))
    assert waits() == usual
    assert models.QueryLog.objects.count() == 2
