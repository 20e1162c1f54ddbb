"""Words in lists of chunks: by reading, by the lexical index, and common ones by reading again."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.core.access import Scope
from rag.providers.postgres import stats
from rag.providers.postgres.keys import term_key
from rag.providers.postgres.term_counts import count_holders
from rag.services import find_chunks as service
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
    assert count_holders([store.pk], keys[:1]) == 2
    before = count_holders(stores, keys)
    stats.pack(store.pk)
    assert count_holders(stores, keys) == before
    assert count_holders([store.pk + 1] * 3, keys) == 0
    assert count_holders([], []) == 0


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
    assert (texts, sql.count("rag_chunk_lex")) == ([
        "a Pumpkin", "the pump is new", "the pump is old",
    ], 0)  # fmt: skip
