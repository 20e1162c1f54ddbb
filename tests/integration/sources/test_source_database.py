"""The database source on a real Postgres: the contract, what is refused, what is cut, what ends."""

from __future__ import annotations

import threading
import time
import tracemalloc
from typing import Any

import pytest
from django.db import connection, connections
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    ConfigurationError,
    ForbiddenError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
    UnknownNameError,
)
from rag.core.options import read_options
from rag.core.sources import SourceQuery, SourceResult
from rag.plugins.contract_source import Ask, LentPorts, SourceContract
from rag.plugins.rows.postgres import APPLICATION
from rag.plugins.sources.database import DatabaseSource

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _allowed(settings: Any) -> None:
    settings.RAG = {**settings.RAG, "SOURCE_DATABASES": ("default",)}


def ask(template: str, deadline: Deadline | None = None, /, **options: Any) -> SourceResult:
    values = options.pop("values", {})
    made = read_options(
        DatabaseSource.Options, {"query_template": template, **options}, of="database"
    )
    query = SourceQuery(
        "the question", Scope.anonymous(), deadline or Deadline(10.0), LentPorts({}), values
    )
    return DatabaseSource(made).retrieve(query)


def rows(template: str, **options: Any) -> list[Any]:
    return [hit.data for hit in ask(template, **options).hits]


def n_backends() -> int:
    """Return how many connections of sources the server has, as of now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            [APPLICATION],
        )
        return int(cursor.fetchone()[0])


class TestDatabaseSource(SourceContract):
    plugin = DatabaseSource
    options = {"query_template": "SELECT 'pump' AS name, 1 AS page WHERE {wanted} = 1"}
    has_access_rules = False

    def query_with_hits(self) -> Ask:
        return Ask("pump", values={"wanted": 1})

    def query_without_hits(self) -> Ask:
        return Ask("pump", values={"wanted": 0})

    def slow_query(self) -> Ask:
        return Ask("pump", options={"query_template": "SELECT pg_sleep(20)"})

    def failing_query(self) -> Ask:
        return Ask("pump", options={"query_template": "SELECT 1 / 0"})


def test_a_row_is_a_hit_with_its_data_and_a_readable_text() -> None:
    hit = ask("SELECT 'HX-400' AS product, 2 AS years, NULL AS note").hits[0]
    assert hit.data == {"product": "HX-400", "years": 2, "note": None}
    assert hit.text == "product: HX-400\nyears: 2"
    assert (hit.rank, hit.score, hit.file_name, hit.source) == (1, None, "default", "database")


def test_a_row_of_nothing_is_still_a_row() -> None:
    found = ask("SELECT NULL AS a, NULL::int AS b", content_column="a")
    assert found.hits[0].text == "a: null\nb: null"


def test_columns_are_mapped_to_text_title_score_and_id() -> None:
    hit = ask(
        "SELECT 7 AS id, '手册' AS title, '保修两年' AS body, 0.75::numeric AS rank",
        content_column="body",
        title_column="title",
        score_column="rank",
        id_column="id",
        content_type="manual",
    ).hits[0]
    assert (hit.text, hit.file_name, hit.score) == ("保修两年", "手册", 0.75)
    assert (hit.external_id, hit.content_type) == ("7", "manual")


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UnknownNameError, match="nope.*Known: body, id"):
        ask("SELECT 1 AS id, 'x' AS body", content_column="nope")
    with pytest.raises(InvalidInputError, match="“body” does not hold numbers but 'x'"):
        ask("SELECT 1 AS id, 'x' AS body", score_column="body")


@pytest.mark.parametrize(
    "attack",
    ["' OR 1=1 --", "1; DROP TABLE rag_store", "{user_query}", "%s", "$1", "\\", "a\0b", "\ud800"],
)
def test_a_value_never_becomes_sql(attack: str) -> None:
    found = rows("SELECT {value}::text AS v, 'x' = {value} AS same", values={"value": attack})
    assert found == [
        {"v": attack.replace("\0", "\ufffd").replace("\ud800", "\ufffd"), "same": False}
    ]


def test_values_keep_their_types_and_the_question_is_one_of_them() -> None:
    assert rows("SELECT {user_query}::text AS q") == [{"q": "the question"}]
    values: dict[str, Any] = {"n": 5, "days": ["2024-01-01"], "none": None, "map": {"a": [1, "二"]}}
    assert rows(
        "SELECT {n} + 1 AS n, DATE '2024-01-01' = ANY({days}) AS d, {none}::int AS o,"
        " {map}::jsonb -> 'a' AS m",
        values=values,
    ) == [{"n": 6, "d": True, "o": None, "m": [1, "二"]}]


def test_a_list_after_in_is_its_items_an_empty_one_too() -> None:
    series = "SELECT n FROM generate_series(1, 4) n WHERE n "
    assert [row["n"] for row in rows(series + "IN ({ids})", values={"ids": [2, 4, 9]})] == [2, 4]
    assert [row["n"] for row in rows(series + "IN {ids}", values={"ids": ["3"]})] == [3]
    assert [row["n"] for row in rows(series + "IN {ids}", values={"ids": 3})] == [3]
    assert rows(series + "IN {ids}", values={"ids": []}) == []
    assert len(rows(series + "NOT IN {ids}", values={"ids": []})) == 4
    assert [row["n"] for row in rows(series + "NOT IN ({ids})", values={"ids": (1, 2)})] == [3, 4]
    assert len(rows(series + "IN {ids}", values={"ids": list(range(100_000))})) == 4


def test_percent_signs_and_doubled_braces_stay() -> None:
    assert rows(
        "SELECT 'a%' || 'b' AS v, 7 % 4 AS m, 'ab' LIKE 'a%' AS l, '{{1,2}}'::int[] AS a"
    ) == [{"v": "a%b", "m": 3, "l": True, "a": [1, 2]}]


def test_a_missing_value_is_named_with_those_that_are_there() -> None:
    with pytest.raises(InvalidInputError, match="needs “token_id”.*Known: region, user_query"):
        ask("SELECT {token_id}", values={"region": 1})


@pytest.mark.parametrize(
    "template",
    [
        "WITH x AS (DELETE FROM rag_store RETURNING 1) SELECT * FROM x",
        "WITH x AS (INSERT INTO rag_store (name) VALUES ('x') RETURNING 1) SELECT * FROM x",
        "SELECT * FROM rag_store FOR UPDATE",
        "SELECT nextval('rag_store_id_seq')",
        "INSERT INTO rag_store (name) VALUES ('x')",
        "UPDATE rag_store SET name = 'x'",
        "DO $$ BEGIN DELETE FROM rag_store; END $$",
        "COPY rag_store TO PROGRAM 'true'",
        "SET default_transaction_read_only = off",
        "BEGIN READ WRITE",
        "EXPLAIN ANALYZE DELETE FROM rag_store",
        "CALL x()",
    ],
)
def test_what_would_change_data_is_forbidden(template: str) -> None:
    with pytest.raises(ForbiddenError):
        ask(template)


def test_what_selects_into_a_table_makes_none() -> None:
    with pytest.raises(InvalidInputError, match="not allowed here"):
        ask("SELECT 1 AS a INTO loot")


@pytest.mark.parametrize(
    "template",
    [
        "SELECT 1; DROP TABLE rag_store",
        "SELECT 1; COMMIT; DELETE FROM rag_store",
        "SELECT '\\'; DELETE FROM rag_store; --'",
        "SELECT 1 /* /* */ ; */ ; SELECT 2",
        "SELECT $a$;$a$; SELECT 2",
    ],
)
def test_two_statements_are_refused_by_us(template: str) -> None:
    with pytest.raises(InvalidInputError, match="more than one statement"):
        ask(template)


@pytest.mark.parametrize(
    "template", ["SELECT ';' AS a;", "SELECT 1 -- ; \n ; -- x", "SELECT $$;$$"]
)
def test_a_semicolon_in_a_text_or_at_the_end_is_none(template: str) -> None:
    assert len(rows(template)) == 1


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "'a'",
                "'\\'",
                "E'\\''",
                "'it''s;'",
                "$$;'$$",
                "$x$ $$ ; $x$",
                "U&'\\0041'",
                '";"',
                "e'\\\\'",
            ]
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(
        st.sampled_from(["--;'\n", "/*;'*/", "/* /* ; */ ' */", "--\r", "\n", "/**/"]), max_size=5
    ),
)
def test_quotes_and_comments_hide_no_statement_and_no_end(
    texts: list[str], gaps: list[str]
) -> None:
    gap = "".join(gaps) or " "
    sql = (
        f"{gap}SELECT {f'{gap}||{gap}'.join(texts)}{gap} FROM (SELECT 'q' AS \";\") AS t{gap};{gap}"
    )
    assert len(rows(sql)) == 1
    with pytest.raises(InvalidInputError, match="more than one statement"):
        ask(f"{sql}{gap}SELECT 2")


def test_two_statements_and_functions_are_refused_by_the_database_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rag.stages.sql.template.check_read_only", lambda sql, *_: len(sql))
    with pytest.raises(InvalidInputError, match="multiple commands"):
        ask("SELECT 1; COMMIT")
    with pytest.raises(ProviderError, match="read-write mode"):
        ask("SELECT set_config('transaction_read_only', 'off', false)")
    with pytest.raises(ForbiddenError):
        ask("SELECT lo_create(0)")
    with pytest.raises(InvalidInputError, match="syntax error"):
        ask("DELETE FROM rag_store")


@pytest.mark.parametrize(
    "call",
    [
        "pg_terminate_backend(1)",
        "pg_catalog.pg_read_file ('x')",
        "\"lo_import\"('x')",
        "dblink('x')",
        "PG_LS_DIR('/')",
        "set_config('a', 'b', false)",
        "query_to_xml('x')",
        "pg_try_advisory_lock(1)",
    ],
)
def test_functions_that_reach_further_are_refused(call: str) -> None:
    with pytest.raises(ForbiddenError, match="may not be called|encoded name"):
        ask(f"SELECT {call}")


def test_rows_are_json_safe_whatever_the_type() -> None:
    (row,) = rows(
        "SELECT 12.50 AS price, 3::numeric AS whole, 0.1234567890123456789::numeric AS fine,"
        " 'NaN'::float8 AS nan, '-inf'::float8 AS low, 'NaN'::numeric AS nan_n,"
        " DATE '2024-02-03' AS day, TIMESTAMPTZ '2024-02-03 04:05:06+00' AS moment,"
        " 'infinity'::timestamptz AS ever, '0044-03-15 BC'::date AS ides, TIME '04:05' AS t,"
        " '1 mon 2 days 03:00'::interval AS span, '\\x00ff'::bytea AS raw,"
        " 'c0ffee00-0000-4000-8000-000000000000'::uuid AS id, ARRAY[[1,2],[3,NULL]] AS grid,"
        " '{{\"a\": [1, null]}}'::jsonb AS doc, '10.0.0.1'::inet AS ip, int4range(1, 5) AS r,"
        " TRUE AS yes, ARRAY[DATE '2024-01-01'] AS days, ROW(1, 'x') AS pair"
    )
    assert row == {
        "price": 12.5,
        "whole": 3,
        "fine": "0.1234567890123456789",
        "nan": "NaN",
        "low": "-Infinity",
        "nan_n": "NaN",
        "day": "2024-02-03",
        "moment": "2024-02-03T04:05:06+00:00",
        "ever": "infinity",
        "ides": "0044-03-15 BC",
        "t": "04:05:00",
        "span": "1 mon 2 days 03:00:00",
        "raw": "AP8=",
        "id": "c0ffee00-0000-4000-8000-000000000000",
        "grid": [[1, 2], [3, None]],
        "doc": {"a": [1, None]},
        "ip": "10.0.0.1",
        "r": "[1, 5)",
        "yes": True,
        "days": ["2024-01-01"],
        "pair": ["1", "x"],
    }


def test_columns_of_one_name_are_all_kept() -> None:
    assert rows("SELECT 1 AS id, 2 AS id, 3 AS id_2, 4 AS id") == [
        {"id": 1, "id_3": 2, "id_2": 3, "id_4": 4}
    ]


def test_rows_beyond_the_limit_are_cut_and_it_is_said() -> None:
    exact = ask("SELECT n FROM generate_series(1, 5) n", max_rows=5)
    assert (len(exact.hits), exact.notes) == (5, ())
    cut = ask("SELECT n FROM generate_series(1, 1000) n", max_rows=5)
    assert [hit.data for hit in cut.hits] == [{"n": n} for n in range(1, 6)]
    assert cut.notes == ("Only the first 5 rows were kept.",)


def test_bytes_beyond_the_limit_are_cut_and_it_is_said() -> None:
    cut = ask("SELECT repeat('水', 100) AS t FROM generate_series(1, 50)", max_bytes=1000)
    assert len(cut.hits) == 3
    assert cut.notes == ("Only the first 3 rows were kept, within 1,000 bytes.",)
    none = ask("SELECT repeat('x', 2000) AS t", max_bytes=1000)
    assert (none.hits, len(none.notes)) == ((), 1)


def test_a_million_rows_never_come_into_memory() -> None:
    ask("SELECT 1")
    tracemalloc.start()
    found = ask("SELECT n, repeat('x', 500) AS t FROM generate_series(1, 1000000) n", max_rows=100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.hits) == 100
    assert peak < 3_000_000


def test_the_database_ends_what_its_deadline_ends() -> None:
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"within 0\.3 s"):
        ask("SELECT pg_sleep(30)", Deadline(0.3))
    assert time.monotonic() - started < 2
    _until(lambda: n_backends() == 0)


def test_a_cancelled_call_frees_the_backend() -> None:
    deadline, errors = Deadline(30.0), []

    def call() -> None:
        try:
            ask("SELECT pg_sleep(30)", deadline)
        except RAGError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    _until(lambda: n_backends() == 1)
    deadline.cancel()
    thread.join(3)
    assert not thread.is_alive()
    assert isinstance(errors[0], CancelledError)
    _until(lambda: n_backends() == 0)


def test_slow_rows_are_ended_between_them_too() -> None:
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError):
        ask("SELECT pg_sleep(0.05) FROM generate_series(1, 1000)", Deadline(0.5), max_rows=1000)
    assert time.monotonic() - started < 1.5


def test_the_callers_own_connection_is_left_as_it_was() -> None:
    with connection.cursor() as cursor:
        ask("SELECT 1")
        cursor.execute("SHOW transaction_read_only")
        assert cursor.fetchone() == ("off",)
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


def test_a_connection_is_used_once() -> None:
    (first,) = rows("SELECT pg_backend_pid() AS pid")
    (second,) = rows("SELECT pg_backend_pid() AS pid")
    assert first != second


def test_only_listed_databases_are_read(settings: Any) -> None:
    with pytest.raises(UnknownNameError, match="“other”. Known: default"):
        ask("SELECT 1", database="other")
    settings.RAG = {**settings.RAG, "SOURCE_DATABASES": ()}
    with pytest.raises(InvalidInputError, match="RAG_SOURCE_DATABASES"):
        ask("SELECT 1")
    settings.RAG = {**settings.RAG, "SOURCE_DATABASES": ("default", "second")}
    with pytest.raises(UnknownNameError, match="Known: default, second"):
        ask("SELECT 1")
    with pytest.raises(ConfigurationError, match="“second” cannot be used"):
        ask("SELECT 1", database="second")
    assert conf().source_databases == ("default", "second")


def test_a_database_that_is_down_is_an_error_without_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": 1,
        "PASSWORD": "s3cret-word",
        "OPTIONS": {},
    }
    monkeypatch.setitem(connections.settings, "default", gone)
    with pytest.raises(ProviderError, match="“default” cannot be reached") as caught:
        ask("SELECT 1")
    assert "127.0.0.1" not in str(caught.value) and "s3cret-word" not in str(caught.value)


def _until(holds: Any, timeout_s: float = 5.0) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
