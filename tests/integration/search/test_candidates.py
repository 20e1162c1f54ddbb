"""Which words of a question bring candidates, by how many chunks hold them in a large store."""

from __future__ import annotations

import pytest
from django.db import connection

from rag import models
from rag.providers.postgres.lexical.bm25 import term_key
from rag.providers.postgres.search.index import PostgresIndex
from tests.integration.index_world import (
    index_query,
    make_file,
    make_space,
    make_store,
    publish,
    unit,
)

pytestmark = pytest.mark.django_db
NEAR = unit(1.0)
MILLION = 1_000_000


def found(df: dict[str, int], *, with_vector: bool) -> list[str]:
    """Return the words whose only chunk is a candidate, in a store of a million chunks."""
    store = make_store(make_space())
    file = make_file(store)
    publish(file, list(df), [NEAR] * len(df))
    models.Store.objects.filter(pk=store.pk).update(n_chunks=MILLION)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM rag_term_pack")
        cursor.execute("DELETE FROM rag_term_stat")
        cursor.executemany(
            "INSERT INTO rag_term_stat (store_id, key, df) VALUES (%s, %s, %s)",
            [(store.pk, term_key(store.pk, word), n) for word, n in df.items()],
        )
    query = index_query([store], " ".join(df), NEAR if with_vector else None, top_k=100)
    hits, _ = PostgresIndex().search(query)
    return sorted(hit.text for hit in hits if hit.text in df and hit.lexical.rank)


def test_two_thousand_chunks_are_always_looked_at() -> None:
    df = {"cobalt": 300, "basalt": 700, "granite": 900}
    assert found(df, with_vector=True) == sorted(df)


def test_beside_vectors_rare_words_are_enough_when_they_make_most_of_the_question() -> None:
    # 8.1 of 13.4 is more than 0.6 of the weight.
    df = {"cobalt": 300, "basalt": 5_000}
    assert found(df, with_vector=True) == ["cobalt"]


def test_beside_vectors_more_words_are_asked_when_rare_ones_make_little_of_it() -> None:
    # 5.8 of 11.0 is less.
    df = {"cobalt": 3_000, "basalt": 5_500}
    assert found(df, with_vector=True) == sorted(df)


def test_words_alone_are_asked_up_to_a_fiftieth_of_the_store() -> None:
    df = {"cobalt": 300, "basalt": 5_000, "granite": 14_000, "gravel": 15_000}
    assert found(df, with_vector=False) == ["basalt", "cobalt", "granite"]


def test_the_rarest_word_is_asked_however_common_it_is() -> None:
    assert found({"gravel": 400_000}, with_vector=False) == ["gravel"]
