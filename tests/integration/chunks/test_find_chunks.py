"""Words in lists of chunks: by reading, by the lexical index, and common ones by reading again."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.core.access import Scope
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.bm25 import term_key
from rag.providers.postgres.search.term_lookup import document_frequency
from rag.services.chunks import find as service
from tests.factories import FileFactory, StoreFactory, publish

pytestmark = pytest.mark.django_db
TEXTS = ("the pump is new", "the pump is old", "the valve is new", "a Pumpkin")


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory.create()
    publish(FileFactory.create(store=store), *TEXTS)
    stats.roll_up([store.pk])
    return store


def found(words: str) -> tuple[list[str], str]:
    with CaptureQueriesContext(connection) as captured:
        rows = service.find_chunks(
            chunks=models.Chunk.objects.all(), scope=Scope.operator(), words=words
        )
        texts = sorted(rows.values_list("text", flat=True))
    return texts, captured.captured_queries[-1]["sql"]


def test_terms_are_counted_as_rolled_up_and_as_packed(store: models.Store) -> None:
    keys = [term_key(store.pk, term) for term in ("pump", "valv", "nothing")]
    stores = [store.pk] * 3
    assert document_frequency([store.pk], keys[:1]) == 2
    before = document_frequency(stores, keys)
    stats.pack_statistics(store.pk)
    assert document_frequency(stores, keys) == before
    assert document_frequency([store.pk + 1] * 3, keys) == 0
    assert document_frequency([], []) == 0


def test_few_chunks_are_read(store: models.Store) -> None:
    texts, sql = found("pump")
    assert texts == ["a Pumpkin", "the pump is new", "the pump is old"]
    assert "rag_chunk_lex" not in sql


def test_of_many_the_index_picks_those_with_the_word(store: models.Store, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 2)
    texts, sql = found("pump new")
    assert texts == ["the pump is new"]
    assert sql.count("rag_chunk_lex") == 2


def test_a_common_word_is_read_for_and_a_rare_one_beside_it_looked_up(
    store: models.Store, monkeypatch: Any
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 2)
    monkeypatch.setattr(service, "COMMON", 1)
    texts, sql = found("pump valve")
    assert (texts, sql.count("rag_chunk_lex")) == ([], 1)
    texts, sql = found("pump")
    assert (texts, sql.count("rag_chunk_lex")) == (
        [
            "a Pumpkin",
            "the pump is new",
            "the pump is old",
        ],
        0,
    )


def first(words: str, limit: int = 100, chunks: Any = None, stores: Any = None) -> list[str]:
    rows = service.find_first_chunks(
        chunks=models.Chunk.objects.all() if chunks is None else chunks,
        stores=list(models.Store.objects.values_list("pk", flat=True))
        if stores is None
        else stores,
        words=words,
        limit=limit,
    )
    return sorted(rows.values_list("text", flat=True))


@pytest.mark.parametrize("are_few", [True, False])
@pytest.mark.parametrize(
    "words", ["pump", "new pump", "PUMP", "valve", "nothing", "pump valve", "the", "a", "% _", "\\"]
)
def test_the_first_are_those_that_are_found(
    store: models.Store, monkeypatch: Any, words: str, are_few: bool
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 100 if are_few else 2)
    whole = [text for text in TEXTS if all(part in text.lower() for part in words.lower().split())]
    if not are_few:
        # The index knows words, not parts of them.
        whole = [text for text in whole if text != "a Pumpkin" or words == "a"]
        whole = [text for text in whole if words != "a" or text == "a Pumpkin"]
    assert first(words) == sorted(whole)


@pytest.mark.parametrize("are_few", [True, False])
def test_no_more_are_looked_for_than_wanted(
    store: models.Store, monkeypatch: Any, are_few: bool
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 100 if are_few else 1)
    publish(FileFactory.create(store=store), *(f"pump {n}" for n in range(6)))
    assert len(first("pump", limit=3)) == 3
    # What else is asked of the chunks counts before the limit.
    off = models.Chunk.objects.filter(text="pump 5")
    off.update(enabled=False)
    assert first("pump", limit=1, chunks=models.Chunk.objects.filter(enabled=False)) == ["pump 5"]
    mine = models.Chunk.objects.filter(store=StoreFactory.create())
    assert first("pump", chunks=mine) == []


def test_only_the_given_stores_are_looked_through(store: models.Store, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 1)
    other = StoreFactory.create()
    publish(FileFactory.create(store=other), "their pump")
    assert "their pump" in first("pump")
    assert first("pump", stores=[other.pk]) == ["their pump"]


def test_signs_that_are_no_word_are_read_for(store: models.Store, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 1)
    publish(FileFactory.create(store=store), "5 € a pump", "5 $ a pump")
    assert first("€") == ["5 € a pump"]
    assert first("€ pump") == ["5 € a pump"]


def test_the_index_leads_however_rare_the_planner_takes_a_word_for(
    store: models.Store, monkeypatch: Any
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 1)
    publish(FileFactory.create(store=store), *(f"common words {n}" for n in range(200)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE rag_chunk, rag_chunk_lex")
    with CaptureQueriesContext(connection) as captured:
        assert len(first("common", limit=20)) == 20
    (sql,) = (one["sql"] for one in captured.captured_queries if "l.chunk_id" in one["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) {sql}")
        plan = [line for (line,) in cursor.fetchall()]
    outer = next(n for n, line in enumerate(plan) if " on rag_chunk_lex" in line)
    inner = next(n for n, line in enumerate(plan) if " on rag_chunk " in line)
    assert outer < inner, plan
    assert "SubPlan" in " ".join(plan[outer:inner])
    looked_into = re.search(r"loops=(\d+)", " ".join(plan[inner:]))
    assert looked_into is not None
    assert 20 <= int(looked_into[1]) < 40, plan


ORDERS = (("id",), ("-id",), ("ordinal", "id"), ("-ordinal", "-id"))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("common", [0, 1000])
@pytest.mark.parametrize("read_up_to", [1, 100])
def test_pages_in_order_hold_what_is_found_and_lose_nothing(
    store: models.Store, monkeypatch: Any, order: tuple[str, ...], common: int, read_up_to: int
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", read_up_to)
    monkeypatch.setattr(service, "COMMON", common)
    publish(FileFactory.create(store=store), *(f"pump {n} {'€' * (n % 2)}" for n in range(9)))
    # The index knows words, not parts of them.
    chunks = models.Chunk.objects.exclude(text__in=["pump 4 ", "a Pumpkin"]).order_by(*order)
    for words, part in (("pump", "pump "), ("€ PUMP", "€"), ("nothing", "nothing")):
        wanted = [chunk.pk for chunk in chunks if part in chunk.text]
        for limit in (2, 5, 100):
            found = service.find_first_chunks(
                chunks=chunks, stores=[store.pk], words=words, limit=limit, in_order=True
            )
            assert [chunk.pk for chunk in found] == wanted[:limit], words


def test_a_page_by_id_is_looked_up_unless_all_words_are_common(
    store: models.Store, monkeypatch: Any
) -> None:
    monkeypatch.setattr(service, "READ_UP_TO", 1)
    monkeypatch.setattr(service, "COMMON", 2)
    publish(FileFactory.create(store=store), *(f"pump {n} day" for n in range(5)), "rare pump")

    def looks_up(words: str, order: str) -> bool:
        with CaptureQueriesContext(connection) as captured:
            chunks = models.Chunk.objects.order_by(order)
            list(
                service.find_first_chunks(
                    chunks=chunks, stores=[store.pk], words=words, limit=2, in_order=True
                )
            )
        (sql,) = (one["sql"] for one in captured.captured_queries if "OFFSET 0)" in one["sql"])
        return "rag_terms" in sql

    assert looks_up("rare", "id") and looks_up("rare pump", "-id")
    assert not looks_up("pump day", "id") and not looks_up("€", "id")
    assert not looks_up("rare", "ordinal")
