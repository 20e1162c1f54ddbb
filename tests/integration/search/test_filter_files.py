"""Files that filters leave: narrowed by the database, decided by the test, named while they are few."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag import models
from rag.core.ports import FileFilter
from rag.core.types import RetrievalSettings
from rag.providers.milvus.index import MilvusIndex
from rag.providers.postgres.search.index import PostgresIndex
from rag.providers.postgres.search.metadata import metadata_condition
from rag.services.search import engine as service
from rag.stages.ranking.metadata_filter import parse_metadata_filter
from tests.integration.index_world import (
    index_query,
    make_file,
    make_space,
    make_store,
    publish,
    target_of,
    unit,
)

pytestmark = pytest.mark.django_db
HELD: tuple[Any, ...] = (
    None,
    "zh",
    "en",
    "ZH",
    "true",
    "5",
    "",
    "水",
    5,
    5.0,
    5.5,
    -3,
    0,
    0.1,
    1e23,
    10**23,
    2**53 + 1,
    True,
    False,
    [],
    ["zh"],
    ["en", "zh"],
    [5],
    [[["zh"]]],
    [True],
    ["zh", None],
    {"a": 1},
    [{"a": 1}],
)
WANTED = (
    '"zh"',
    "zh",
    "true",
    "false",
    '"5"',
    "5",
    "5.0",
    "5.5",
    "-3",
    "0",
    "0.1",
    "1.0e23",
    str(10**23),
    str(2**53),
    '""',
    "'{'",
    "水",
    "\"{'a': 1}\"",
    "0.5e999",
    '"a\0b"',
    '"\ud800"',
)
SIGNS = ("=", "!=", "<", "<=", ">", ">=")


@pytest.fixture
def store() -> models.Store:
    return make_store(make_space())


@pytest.fixture
def held(store: models.Store) -> dict[int, dict[str, Any]]:
    """Return the metadata of files by id: each kind of value, and none."""
    rows: list[dict[str, Any]] = [{"k": value, "year": n} for n, value in enumerate(HELD)]
    files = [
        make_file(store, str(n), n_chunks=1, metadata=row) for n, row in enumerate([*rows, {}])
    ]
    return {file.pk: file.metadata for file in files}


def passing(text: str) -> set[int]:
    condition = metadata_condition(parse_metadata_filter(text))
    files = models.File.objects.all()
    return set(
        (files if condition is None else files.filter(condition)).values_list("pk", flat=True)
    )


@pytest.mark.parametrize("sign", SIGNS)
def test_no_file_is_lost_to_the_database(held: dict[int, Any], sign: str) -> None:
    for wanted in WANTED:
        test = parse_metadata_filter(f"k {sign} {wanted}")
        right = {pk for pk, metadata in held.items() if test(metadata)}
        assert right <= passing(f"k {sign} {wanted}"), wanted


@pytest.mark.parametrize(
    ("text", "n_read"),
    [
        # The texts, the list that holds it, and what only the test can look into.
        ('k = "zh"', 10),
        ("k > 5", 17),
        ("k = 5", 13),
        ("year < 3", 4),
        ("missing = 1", 0),
        ('k = "zh" AND year < 3', 1),
        ("year < 2 OR year > 26", 5),
        ("year != 4", 28),
        ("NOT year < 3", 29),
        ("year < 2 OR NOT year < 3", 29),
        ("NOT NOT year < 3", 4),
        ("NOT k = 1 AND year < 3", 4),
        ('k = "a\0b"', 29),
        ("year < 0.5e999", 29),
    ],
)
def test_the_database_leaves_out_most(held: dict[int, Any], text: str, n_read: int) -> None:
    assert len(passing(text)) == n_read


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "b", "true", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner, max_size=1),
    max_leaves=4,
)
PARTS = st.tuples(
    st.sampled_from(["", "NOT "]),
    st.sampled_from("kl"),
    st.sampled_from(SIGNS),
    st.sampled_from(["a", "true", '"1"', "1", "-0.5"]),
).map(lambda one: f"{one[0]}{one[1]} {one[2]} {one[3]}")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.sampled_from("kl"), JSON), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(["AND", "OR"]), PARTS), min_size=1, max_size=4),
)
def test_what_passes_is_what_the_test_lets_through(
    store: models.Store, rows: list[dict[str, Any]], parts: list[tuple[str, str]]
) -> None:
    text = " ".join(word for pair in parts for word in pair).partition(" ")[2]
    models.File.objects.all().delete()
    files = models.File.objects.bulk_create(
        models.File(store=store, name="f", sha256=str(n), n_chunks=n + 1, metadata=row)
        for n, row in enumerate(rows)
    )
    test = parse_metadata_filter(text)
    right = {file.pk: file.n_chunks for file in files if test(file.metadata)}
    found = service.files_matching_metadata(text=text, stores=[store])
    assert found is not None
    assert (set(found.file_ids), found.n_chunks) == (set(right), sum(right.values()))


def many_files(store: models.Store, n: int, **values: Any) -> list[int]:
    n_there = store.files.count()
    made = models.File.objects.bulk_create(
        models.File(store=store, name="f", sha256=str(n_there + i), **values) for i in range(n)
    )
    return [file.pk for file in made]


def asked(store: models.Store, **values: Any) -> tuple[FileFilter | None, int]:
    """Return the filter, and how many rows came for it."""
    n_rows = 0

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal n_rows
        done = execute(sql, params, many, context)
        n_rows += context["cursor"].rowcount
        return done

    with connection.execute_wrapper(count), CaptureQueriesContext(connection) as captured:
        found = service.file_filter(store_ids=[store.pk], settings=RetrievalSettings(**values))
    assert len(captured) == bool(values)
    return found, n_rows


def test_a_filter_is_one_statement_of_one_row(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = many_files(store, 3, n_chunks=5, metadata={"lang": "zh", "year": 1})
    many_files(store, 40, n_chunks=5, metadata={"lang": "en"}, content_type="manual")
    many_files(store, 2, n_chunks=0, metadata={"lang": "zh"})
    monkeypatch.setattr(service, "MAX_EXACT", 20)
    monkeypatch.setattr(service, "MAX_NAMED", 10)
    assert asked(store) == (None, 0)
    found, n_rows = asked(store, metadata={"lang": "zh"})
    assert found is not None and n_rows == 1
    assert (sorted(found.file_ids), found.n_chunks) == (few, 15)
    assert asked(store, metadata={"lang": "zh"}, content_types=("manual",))[0] == FileFilter([], 0)
    assert asked(store, content_types=("document",))[0] == found
    # Of many it is said that they are many; the index knows the rest.
    assert asked(store, metadata={"lang": "en"}) == (None, 1)
    assert asked(store, content_types=("manual",)) == (None, 1)


def test_files_with_many_chunks_are_named_while_they_are_few(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = many_files(store, 4, n_chunks=50, metadata={"lang": "zh"})
    monkeypatch.setattr(service, "MAX_EXACT", 20)
    found, _ = asked(store, metadata={"lang": "zh"})
    assert found is not None and (sorted(found.file_ids), found.n_chunks) == (ids, 200)
    # A type is in the index itself.
    assert asked(store, metadata={"lang": "zh"}, content_types=("document",))[0] == found
    assert asked(store, content_types=("document",))[0] is None


def test_the_index_filters_by_metadata_where_no_files_are_named(store: models.Store) -> None:
    for name in ("zh", "en", "fr"):
        file = make_file(store, name, metadata={"lang": name, "deep": {"n": [1, 2]}})
        publish(file, [f"pump {name}"], [unit(1, 0.1 * len(name))])

    def texts(metadata: dict[str, Any], **values: Any) -> list[str]:
        query = index_query([store], "pump", unit(1), settings={"metadata": metadata}, **values)
        return sorted(hit.text for hit in PostgresIndex().search(query)[0])

    assert texts({"lang": "zh"}) == ["pump zh"]
    assert texts({"lang": "%s'"}) == []
    assert texts({"deep": {"n": [2]}}) == ["pump en", "pump fr", "pump zh"]
    # Named files alone count.
    french = models.File.objects.get(name="fr").pk
    assert texts({"lang": "zh"}, file_ids=[french]) == ["pump fr"]
    assert texts({"lang": "zh"}, targets=[target_of(store, n_chunks=10**6, has_hnsw=True)]) == [
        "pump zh"
    ]


class Asked(Exception):
    """Ends a search where Milvus would be asked."""


def test_milvus_is_told_the_files_while_they_are_few(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = many_files(store, 3, n_chunks=1, metadata={"lang": "zh"})

    def filter_of(**settings: Any) -> str:
        seen: list[str] = []

        def propose(server: Any, space: int, numbers: Any, where: str, limit: int) -> list[int]:
            seen.append(where)
            raise Asked

        with monkeypatch.context() as patch, pytest.raises(Asked):
            patch.setattr("rag.providers.milvus.index.search_candidates", propose)
            server: Any = None
            MilvusIndex(server).search(index_query([store], vector=unit(1), settings=settings))
        return seen[0].partition(" and (is_open == true)")[2]

    assert filter_of(metadata={"lang": "zh"}) == f" and file_id in {ids}"
    assert filter_of() == ""
    monkeypatch.setattr("rag.providers.milvus.index.MAX_FILES", 2)
    assert filter_of(metadata={"lang": "zh"}) == ""
    monkeypatch.setattr("rag.providers.milvus.index.MAX_FILES", 3)
    # Nothing is left: nobody is asked.
    query = index_query([store], vector=unit(1), settings={"metadata": {"lang": "fr"}})
    nobody: Any = None
    assert MilvusIndex(nobody).search(query) == ([], {})
