"""Running the search statement: planned once a connection, or anew where values decide."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from rag.providers.postgres.db.connections import fetch_search_rows

pytestmark = pytest.mark.django_db
SQL = "SELECT n, %(word)s::text FROM unnest(%(numbers)s::int[]) n WHERE n < %(most)s ORDER BY n"
VALUES = {"word": "水", "numbers": [3, 1, 70_000], "most": 5_000_000_000}
ROWS = [(1, "水"), (3, "水"), (70_000, "水")]


def run(
    sql: str = SQL, params: Any = VALUES, is_planned_once: bool = True
) -> list[tuple[Any, ...]]:
    return fetch_search_rows(sql, params, ef_search=123, is_planned_once=is_planned_once)


def ask(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def plans() -> list[tuple[int, int]]:
    """Return how often each prepared form of SQL ran with a generic and with a custom plan."""
    return [
        (generic, custom)
        for statement, generic, custom in ask(
            "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"
        )
        if "unnest($" in statement
    ]


@pytest.mark.parametrize("is_planned_once", [True, False])
def test_both_ways_give_the_same_rows(is_planned_once: bool) -> None:
    assert run(is_planned_once=is_planned_once) == ROWS
    assert run(params={**VALUES, "numbers": []}, is_planned_once=is_planned_once) == []


def test_a_statement_is_planned_once_a_connection() -> None:
    before = sum(generic for generic, _ in plans())
    for _ in range(4):
        run()
    assert sum(generic for generic, _ in plans()) == before + 4
    assert all(custom == 0 for _, custom in plans())


def test_where_values_decide_nothing_is_kept() -> None:
    before = plans()
    run(is_planned_once=False)
    assert plans() == before


def test_behind_a_pooler_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    before = plans()
    assert run() == ROWS
    assert plans() == before


@pytest.mark.parametrize("is_planned_once", [True, False])
def test_scans_go_on_where_filters_leave_too_few(is_planned_once: bool) -> None:
    run(is_planned_once=is_planned_once)
    assert ask("SHOW hnsw.iterative_scan") == [("relaxed_order",)]
    assert ask("SHOW hnsw.ef_search") == [("123",)]


@pytest.mark.parametrize("is_planned_once", [True, False])
def test_an_error_is_one_of_djangos(is_planned_once: bool) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        run("SELECT 1 / %(most)s::int", {"most": 0}, is_planned_once)
    assert run(is_planned_once=is_planned_once) == ROWS


def test_other_queries_are_not_prepared() -> None:
    run()
    before = len(ask("SELECT name FROM pg_prepared_statements"))
    for number in range(8):
        ask(f"SELECT {number}")
    assert len(ask("SELECT name FROM pg_prepared_statements")) == before


def searches(ef_search: int, is_planned_once: bool = True) -> list[str]:
    """Search and return the statements of settings that this took; see that they hold."""
    with CaptureQueriesContext(connection) as asked:
        fetch_search_rows(SQL, VALUES, ef_search=ef_search, is_planned_once=is_planned_once)
        told = [query["sql"] for query in asked if "SET hnsw" in query["sql"]]
    assert ask("SHOW hnsw.ef_search") == [(str(ef_search),)]
    return told


@pytest.mark.django_db(transaction=True)
def test_a_connection_is_told_its_settings_once_and_again_when_they_may_have_changed() -> None:
    searches(100)
    assert searches(100) == []
    assert len(searches(200)) == 1
    assert len(searches(50, is_planned_once=False)) == 1
    assert len(searches(200)) == 1, "another kind of search has changed them"
    with pytest.raises(InterruptedError), transaction.atomic():
        assert searches(200) == []
        assert len(searches(100)) == 1
        raise InterruptedError
    assert len(searches(100)) == 1, "the rollback has taken them back"
    connection.close()
    connection.ensure_connection()
    searches(100)
