"""The database source on SQLite: the contract, reading only, values, limits, what ends."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    ForbiddenError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.options import read_options
from rag.core.sources import SourceQuery, SourceResult
from rag.plugins.contract_source import Ask, LentPorts, SourceContract
from rag.plugins.sources.database import DatabaseSource

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture(autouse=True)
def database(tmp_path: Path, settings: Any) -> Iterator[Path]:
    path = tmp_path / "shop #1?.sqlite3"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE product (id INTEGER, name TEXT, price REAL, raw BLOB)")
        rows = [(1, "水泵", 9.5, b"\x00\xff"), (2, "valve", 3.0, None)]
        raw.executemany("INSERT INTO product VALUES (?, ?, ?, ?)", rows)
    raw.close()
    connections.settings["shop"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {},
    }
    settings.RAG = {**settings.RAG, "SOURCE_DATABASES": ("shop",)}
    yield path
    with suppress(AttributeError):
        del connections["shop"]
    del connections.settings["shop"]


def ask(template: str, deadline: Deadline | None = None, /, **options: Any) -> SourceResult:
    values = options.pop("values", {})
    given = {"query_template": template, **options}
    made = read_options(DatabaseSource.Options, given, of="database")
    query = SourceQuery(
        "the question", Scope.anonymous(), deadline or Deadline(10.0), LentPorts({}), values
    )
    return DatabaseSource(made).retrieve(query)


def rows(template: str, **options: Any) -> list[Any]:
    return [hit.data for hit in ask(template, **options).hits]


class TestDatabaseSourceOnSqlite(SourceContract):
    plugin = DatabaseSource
    options = {"query_template": "SELECT name FROM product WHERE id = {wanted}"}
    has_access_rules = False

    def query_with_hits(self) -> Ask:
        return Ask("pump", values={"wanted": 1})

    def query_without_hits(self) -> Ask:
        return Ask("pump", values={"wanted": 0})

    def slow_query(self) -> Ask:
        return Ask("pump", options={"query_template": ENDLESS})

    def failing_query(self) -> Ask:
        return Ask("pump", options={"query_template": "SELECT * FROM nowhere"})


def test_rows_are_json_safe_and_values_bound() -> None:
    assert rows(
        "SELECT * FROM product WHERE name = {n} AND id IN ({ids})",
        values={"n": "水泵", "ids": [1, 7]},
    ) == [{"id": 1, "name": "水泵", "price": 9.5, "raw": "AP8="}]
    assert rows("SELECT {a} AS a, 5 % 3 AS b", values={"a": "'; DROP TABLE product; --"}) == [
        {"a": "'; DROP TABLE product; --", "b": 2}
    ]
    kinds = {
        "d": date(2024, 1, 2),
        "t": datetime(2024, 1, 2, 3, 4),
        "u": UUID(int=10),
        "p": Decimal("1.50"),
        "f": True,
    }
    assert rows("SELECT {d} AS d, {t} AS t, {u} AS u, {p} AS p, {f} AS f", values=kinds) == [
        {"d": "2024-01-02", "t": "2024-01-02 03:04:00", "u": "0" * 31 + "a", "p": "1.50", "f": 1}
    ]


def test_a_text_that_is_no_utf8_is_shown_as_far_as_it_is() -> None:
    assert rows("SELECT CAST(x'61ff62' AS TEXT) AS t, 9e999 AS big") == [
        {"t": "a\ufffdb", "big": "Infinity"}
    ]


@pytest.mark.parametrize(
    "template",
    [
        "WITH x AS (SELECT 1) DELETE FROM product",
        "WITH x AS (SELECT 1) INSERT INTO product SELECT 9, 'x', 1, NULL",
        "DELETE FROM product",
        "PRAGMA query_only = OFF",
        "ATTACH DATABASE '/tmp/loot.db' AS loot",
        "SELECT load_extension('x')",
        "SELECT * FROM pragma_database_list",
    ],
)
def test_what_does_more_than_read_is_forbidden(template: str, database: Path) -> None:
    with pytest.raises(RAGError):
        ask(template)
    assert len(rows("SELECT * FROM product")) == 2


def test_writing_is_refused_by_the_database_in_words() -> None:
    with pytest.raises(ForbiddenError, match="would change data"):
        ask("WITH x AS (SELECT 1) DELETE FROM product")


def test_two_statements_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="more than one statement"):
        ask("SELECT 1; DELETE FROM product")


def test_a_parameter_of_sqlites_own_has_no_value() -> None:
    with pytest.raises(InvalidInputError, match="does not accept the query"):
        ask("SELECT ?, {user_query}")


def test_numbers_and_values_beyond_sqlites_limits_are_errors_for_people() -> None:
    with pytest.raises(InvalidInputError, match="too large"):
        ask("SELECT {n}", values={"n": 2**80})
    with pytest.raises(InvalidInputError, match="too big"):
        ask("SELECT zeroblob(200000000)")


def test_a_file_that_is_not_there_is_not_made(database: Path) -> None:
    database.unlink()
    with pytest.raises(ProviderError, match="“shop” cannot be reached"):
        ask("SELECT 1")
    assert not database.exists()


def test_rows_are_cut_and_endless_ones_end() -> None:
    series = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    cut = ask(series, max_rows=7)
    assert [hit.data for hit in cut.hits] == [{"i": i} for i in range(1, 8)]
    assert cut.notes == ("Only the first 7 rows were kept.",)
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError):
        ask(ENDLESS, Deadline(0.3))
    assert time.monotonic() - started < 1.5


def test_a_locked_database_is_told_apart(database: Path) -> None:
    raw = sqlite3.connect(database, isolation_level=None)
    raw.execute("BEGIN EXCLUSIVE")
    with pytest.raises((ProviderError, ProviderTimeoutError)):
        ask("SELECT * FROM product", Deadline(0.5))
    raw.close()
