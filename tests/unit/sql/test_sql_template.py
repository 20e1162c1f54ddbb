"""SQL templates: what is a place for a value, what is refused, and that nothing becomes SQL."""

from __future__ import annotations

import sqlite3
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import ForbiddenError, InvalidInputError, RAGError
from rag.stages.sql.read_only import Dialect, tokenize_sql
from rag.stages.sql.template import MAX_CHARS, parse_sql_template

DIALECTS: list[Dialect] = ["postgresql", "sqlite"]


def bind(template: str, dialect: Dialect = "postgresql", /, **values: Any) -> tuple[str, list[Any]]:
    return parse_sql_template(template, dialect=dialect).bind(values)


def kinds(sql: str, dialect: Dialect = "postgresql") -> list[tuple[str, str]]:
    return [(part.kind, sql[part.start : part.end]) for part in tokenize_sql(sql, dialect)]


def test_values_are_bound_in_order_and_as_often_as_named() -> None:
    sql, parameters = bind("SELECT {b}, {a} FROM t WHERE x > {b}", a=1, b="two")
    assert sql == "SELECT %s, %s FROM t WHERE x > %s"
    assert parameters == ["two", 1, "two"]
    assert bind("SELECT {a}", "sqlite", a=1) == ("SELECT ?", [1])


def test_percent_signs_are_doubled_only_where_the_driver_reads_them() -> None:
    assert bind("SELECT 5 % 2, 'a%'")[0] == "SELECT 5 %% 2, 'a%%'"
    assert bind("SELECT 5 % 2, 'a%'", "sqlite")[0] == "SELECT 5 % 2, 'a%'"


def test_doubled_braces_are_braces_in_code_quotes_and_comments() -> None:
    assert bind("SELECT '{{1,2}}' /* {{x}} */")[0] == "SELECT '{1,2}' /* {x} */"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "place",
    [
        "{}",
        "{0}",
        "{x.__class__}",
        "{x[0]}",
        "{x!r}",
        "{x:>9}",
        "{ x}",
        "{x }",
        "{x",
        "x}",
        "{*x}",
        "{x-y}",
        "{{x}",
        "{x}}",
        "{f()}",
        "{'x'}",
        "{x\n}",
    ],
)
def test_only_plain_names_are_places(place: str, dialect: Dialect) -> None:
    with pytest.raises(InvalidInputError):
        parse_sql_template(f"SELECT {place}", dialect=dialect)


@pytest.mark.parametrize(
    "template",
    [
        "SELECT '{x}'",
        "SELECT 'a {x} b'",
        'SELECT "{x}"',
        "SELECT E'\\'{x}'",
        "SELECT $${x}$$",
        "SELECT $q$ $$ {x} $q$",
        "SELECT 1 -- {x}",
        "SELECT /* a /* b */ {x} */ 1",
        "SELECT 'it''s {x}'",
    ],
)
def test_a_place_within_quotes_or_comments_is_refused_and_says_so(template: str) -> None:
    with pytest.raises(InvalidInputError, match=r"\{x\} stands inside of (quotes|a comment)"):
        parse_sql_template(template, dialect="postgresql")


@pytest.mark.parametrize("template", ["SELECT `{x}`", "SELECT [{x}]", "SELECT '\\{x}'"])
def test_sqlite_has_quotes_of_its_own(template: str) -> None:
    with pytest.raises(InvalidInputError, match="stands inside of quotes"):
        parse_sql_template(template, dialect="sqlite")


@pytest.mark.parametrize(
    "template",
    [
        "SELECT t{x}",
        "SELECT {x}t",
        "SELECT {x}{y}",
        "SELECT ${x}$",
        "SELECT {x}'a'",
        "SELECT 1{x}",
        "SELECT {{{x}}}",
    ],
)
def test_a_place_that_touches_a_word_is_refused(template: str) -> None:
    with pytest.raises(InvalidInputError, match="touches"):
        parse_sql_template(template, dialect="postgresql")


def test_a_backslash_is_no_escape_in_a_plain_text() -> None:
    assert bind("SELECT '\\', {x}", x=1) == ("SELECT '\\', %s", [1])
    with pytest.raises(InvalidInputError, match="never closed"):
        parse_sql_template("SELECT E'\\', {x}", dialect="postgresql")


def test_names_may_be_of_any_script() -> None:
    assert bind("SELECT {用户}", 用户="王") == ("SELECT %s", ["王"])


def test_a_list_after_in_becomes_an_array_or_as_many_places() -> None:
    for form in ("IN {ids}", "in ({ids})", "IN ( {ids} )", "IN\n({ids})"):
        assert bind(f"SELECT 1 WHERE a {form}", ids=[1, 2]) == (
            "SELECT 1 WHERE a = ANY(%s)",
            [[1, 2]],
        )
        assert bind(f"SELECT 1 WHERE a NOT {form}", "sqlite", ids=(1, 2)) == (
            "SELECT 1 WHERE a NOT IN (?, ?)",
            [1, 2],
        )
    assert bind("SELECT 1 WHERE a NOT IN {ids} AND 1", ids=7) == (
        "SELECT 1 WHERE a <> ALL(%s) AND 1",
        [[7]],
    )


def test_in_belongs_to_a_place_only_when_it_is_code_and_alone() -> None:
    assert bind("SELECT 1 -- IN\n, {x}", x=1)[0] == "SELECT 1 -- IN\n, %s"
    assert bind("SELECT a IN ({x}, {y})", x=1, y=2)[0] == "SELECT a IN (%s, %s)"
    assert bind("SELECT a IN /* b */ {x}", x=[1])[1] == [[1]]
    assert bind("SELECT margin {x}", x=1)[0] == "SELECT margin %s"


def test_a_list_elsewhere_is_an_array_where_there_are_any() -> None:
    assert bind("SELECT ANY({x})", x={3})[1] == [[3]]
    with pytest.raises(InvalidInputError, match="“x” is a list.*IN {x}"):
        bind("SELECT {x}", "sqlite", x=[1])


def test_a_missing_value_is_named() -> None:
    with pytest.raises(InvalidInputError, match="needs “b”, which has no value. Known: a, c"):
        bind("SELECT {b}", a=1, c=2)
    with pytest.raises(InvalidInputError, match="Known: none"):
        bind("SELECT {b}")


class Colour(Enum):
    RED = "red"


def test_what_can_be_bound_is_and_what_cannot_is_named() -> None:
    plain = [1, 1.5, True, None, "x", Decimal("1.5"), date(2024, 1, 2), UUID(int=1), b"x"]
    assert bind("SELECT {x}", x=plain)[1] == [plain]
    assert bind("SELECT {x}", x=Colour.RED)[1] == ["red"]
    assert bind("SELECT {x}", x={"a": "中"})[1] == ['{"a": "中"}']
    assert bind("SELECT {x}", x="a\0b\ud800")[1] == ["a\ufffdb\ufffd"]
    with pytest.raises(InvalidInputError, match="“x” is of type object"):
        bind("SELECT {x}", x=object())
    with pytest.raises(InvalidInputError, match="“x” cannot be written as JSON"):
        bind("SELECT {x}", x={"a": float("nan")})


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("template", ["", "  ", "-- nothing", "/* x */", ";", "()"])
def test_an_empty_query_is_refused(template: str, dialect: Dialect) -> None:
    with pytest.raises(RAGError):
        parse_sql_template(template, dialect=dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "word",
    [
        "DELETE FROM t",
        "insert into t",
        "/**/ DROP TABLE t",
        "PRAGMA x",
        "ATTACH 'x' AS y",
        "VACUUM",
        "(DELETE FROM t)",
        "EXPLAIN SELECT 1",
        "\ufeffDELETE",
    ],
)
def test_what_does_not_begin_like_reading_is_forbidden(word: str, dialect: Dialect) -> None:
    with pytest.raises(ForbiddenError, match="begins with"):
        parse_sql_template(word, dialect=dialect)


def test_too_long_a_query_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="20020 characters"):
        parse_sql_template("SELECT 1 " + "x" * (MAX_CHARS + 11), dialect="postgresql")


def test_a_parameter_of_the_databases_own_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\$1 in the query"):
        parse_sql_template("SELECT $1, {x}", dialect="postgresql")
    parse_sql_template("SELECT '$1'", dialect="postgresql")


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
@pytest.mark.parametrize("sql", ["SELECT 1\0", "SELECT '\ud800'", "SELECT 1 -- \udfff", "\0"])
def test_what_no_database_takes_is_refused_before_it_is_asked(dialect: Any, sql: str) -> None:
    with pytest.raises(InvalidInputError, match="half a character"):
        parse_sql_template(sql, dialect=dialect)


def test_a_function_is_only_what_is_called() -> None:
    parse_sql_template("SELECT dblink, set_config FROM t", dialect="postgresql")
    with pytest.raises(ForbiddenError, match="“dblink_exec”"):
        parse_sql_template("SELECT dblink_exec /* x */ ('y')", dialect="postgresql")
    with pytest.raises(ForbiddenError, match="encoded"):
        parse_sql_template("SELECT U&\"\\0070g_read_file\"('x')", dialect="postgresql")


def test_the_parts_of_a_statement() -> None:
    sql = "SELECT E'a\\'b', 'c''d', $x$;$x$, \"e;\" -- f\n/* g /* h */ i */;"
    assert [kind for kind, _ in kinds(sql)] == [
        "word",
        "string",
        "other",
        "string",
        "other",
        "string",
        "other",
        "name",
        "comment",
        "comment",
        "semicolon",
    ]
    assert kinds("/* a /* b */ c")[-1] == ("open", "/*")
    assert kinds("/* a /* b */ c", "sqlite")[-1] == ("word", "c")


@given(st.text(alphabet="'\"`[]{}$;-/*\\ xE\n()1,IN", max_size=30), st.sampled_from(DIALECTS))
def test_parts_are_in_order_and_leave_only_white_space_out(sql: str, dialect: Dialect) -> None:
    position = 0
    for part in tokenize_sql(sql, dialect):
        assert not sql[position : part.start].strip()
        assert part.start < part.end <= len(sql)
        position = part.end
        if part.kind == "open":
            return
    assert not sql[position:].strip()


@given(st.text(max_size=40))
def test_any_template_is_read_or_refused_in_words(template: str) -> None:
    for dialect in DIALECTS:
        try:
            read = parse_sql_template("SELECT " + template, dialect=dialect)
        except RAGError as error:
            assert str(error)
        else:
            assert all(piece for piece in read.pieces[:-1])


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_value_changes_the_statement(one: str, other: str) -> None:
    template = parse_sql_template("SELECT {a} || 'x', {b} -- {{c}}\n", dialect="sqlite")
    assert template.bind({"a": one, "b": other})[0] == template.bind({"a": "", "b": ""})[0]


@given(st.text(alphabet="'\"`[];-/* x\n,1", max_size=25))
def test_sqlite_agrees_on_where_a_statement_ends(text: str) -> None:
    sql = "SELECT 1 WHERE 'a' <> " + text
    parts = list(tokenize_sql(sql, "sqlite"))
    if parts[-1].kind == "open":
        return
    code = [part for part in parts if part.kind != "comment"]
    stops = [part for part in code if part.kind == "semicolon"]
    with sqlite3.connect(":memory:") as database:
        try:
            database.execute(sql)
        except sqlite3.ProgrammingError as error:
            assert "one statement" in str(error)
            assert stops and code[-1] is not stops[0]
        except sqlite3.Error:
            pass
        else:
            assert not stops or all(
                part.kind == "semicolon" for part in code[code.index(stops[0]) :]
            )


@given(st.lists(st.integers(-9, 9), max_size=6), st.booleans())
def test_membership_is_what_python_says(ids: list[int], is_not: bool) -> None:
    word = "NOT IN" if is_not else "IN"
    template = f"WITH t(n) AS (VALUES (-1), (0), (5)) SELECT n FROM t WHERE n {word} ({{ids}})"
    sql, parameters = bind(template, "sqlite", ids=ids)
    with sqlite3.connect(":memory:") as database:
        found = [row[0] for row in database.execute(sql, parameters)]
    assert found == [n for n in (-1, 0, 5) if (n in ids) != is_not]
