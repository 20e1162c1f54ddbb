"""A new revision swaps in at once: kept, moved, new and retired chunks."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from rag import models
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.write import staging as drafts
from tests.integration.index_world import (
    draft,
    make_file,
    make_space,
    make_store,
    publish,
    swap,
    unit,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def file() -> models.File:
    file = make_file(make_store(make_space()))
    publish(file, ["alpha", "beta", "gamma"], [unit(1), unit(0, 1), unit(0, 0, 1)])
    return file


def live(file: models.File) -> list[tuple[str, int]]:
    rows = models.Chunk.objects.filter(file=file, is_live=True).order_by("ordinal")
    return list(rows.values_list("text", "pk"))


def column(table: str, name: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {name} FROM {table} ORDER BY chunk_id")
        return [row[0] for row in cursor.fetchall()]


def test_unchanged_chunks_keep_id_and_vector_even_when_they_trade_places(file: models.File) -> None:
    before = dict(live(file))
    draft(file, ["gamma", "new", "alpha"], [None, unit(0, 0, 0, 1), None])
    assert swap(file) == 3
    after = dict(live(file))
    assert [text for text, _ in live(file)] == ["gamma", "new", "alpha"]
    assert (after["alpha"], after["gamma"]) == (before["alpha"], before["gamma"])
    assert column("rag_chunk_vec", "chunk_id") == sorted(after.values())
    assert column("rag_chunk_lex", "chunk_id") == sorted(after.values())


def test_a_chunk_that_is_gone_is_kept_for_its_citations_but_not_indexed(file: models.File) -> None:
    beta = dict(live(file))["beta"]
    draft(file, ["alpha"], [None])
    swap(file)
    row = models.Chunk.objects.get(pk=beta)
    assert (row.is_live, row.text) == (False, "beta")
    assert beta not in column("rag_chunk_vec", "chunk_id")


def test_a_retired_chunk_does_not_come_back_by_itself(file: models.File) -> None:
    draft(file, ["alpha"], [None])
    swap(file)
    draft(file, ["alpha", "beta"], [None, unit(0, 1)])
    swap(file)
    assert [text for text, _ in live(file)] == ["alpha", "beta"]
    assert len(column("rag_chunk_vec", "chunk_id")) == 2


def test_a_disabled_chunk_stays_disabled(file: models.File) -> None:
    models.Chunk.objects.filter(text="beta").update(enabled=False)
    draft(file, ["beta", "alpha"], [None, unit(0.5, 0.5)])
    swap(file)
    assert dict(
        zip(column("rag_chunk_vec", "chunk_id"), column("rag_chunk_vec", "enabled"), strict=True)
    ) == {pk: text != "beta" for text, pk in live(file)}


def test_fresh_vectors_replace_the_old_ones_of_kept_chunks(file: models.File) -> None:
    before = dict(live(file))
    draft(file, ["alpha", "beta", "gamma"], [unit(0, 0, 0, 1)] * 3)
    swap(file)
    assert dict(live(file)) == before
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT embedding::text FROM rag_chunk_vec")
        assert cursor.fetchall() == [("[0,0,0,1,0,0,0,0]",)]


def test_repeated_texts_are_matched_one_to_one(file: models.File) -> None:
    publish(file, ["same", "same", "same"], [unit(1)] * 3)
    publish(file, ["same", "same"], [unit(1)] * 2)
    assert len(live(file)) == 2
    assert len(column("rag_chunk_vec", "chunk_id")) == 2


def test_statistics_follow_every_swap(file: models.File) -> None:
    publish(file, ["alpha", "delta epsilon"], [unit(1), unit(1)])
    publish(file, ["epsilon"], [unit(1)])
    store = file.store
    store.refresh_from_db()
    by_delta = (store.n_chunks, store.sum_len)
    stats.recount_statistics(store.pk)
    store.refresh_from_db()
    assert by_delta == (store.n_chunks, store.sum_len) == (1, 1)


def test_a_restriction_reaches_chunks_that_are_swapped_in_later(file: models.File) -> None:
    group = Group.objects.create(name="g")
    file.restricted_to.add(group)
    publish(file, ["alpha", "zeta"], [unit(1), unit(1)])
    assert column("rag_chunk_vec", "restricted") == [[group.pk]] * 2
    assert column("rag_chunk_lex", "restricted") == [[group.pk]] * 2


def test_a_draft_of_other_bytes_or_settings_is_thrown_away(file: models.File) -> None:
    draft(file, ["one", "two"], [unit(1), unit(1)])
    assert drafts.begin_staging(file.pk, "test") == 2
    assert drafts.begin_staging(file.pk, "other") == 0


def test_a_vector_is_offered_for_reuse_once(file: models.File) -> None:
    shas = list(models.Chunk.objects.filter(file=file).values_list("sha256", flat=True))
    assert drafts.reusable_texts(file.pk, file.store.space_id, shas) == set(shas)
    draft(file, ["alpha"], [None])
    assert len(drafts.reusable_texts(file.pk, file.store.space_id, shas)) == 2
