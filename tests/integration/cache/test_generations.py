"""The number that says which state a store is in: what moves it, when, and what must not."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction

from rag import models
from rag.core.documents import Chunk
from rag.providers import postgres
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.search.generations import (
    bump_generation,
    compact_generations,
    read_states,
)
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.services.operations.recovery import recover_jobs
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.fakes.words_embedder import WordsEmbedder
from tests.integration.index_desk import ask

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory()
    publish(FileFactory(store=store, name="a.txt"), "the pump stops", "the valve is blue")
    return store


def number(store: models.Store) -> int:
    (state,) = read_states([store.pk])
    assert not state.is_ours
    return state.generation


def elsewhere(work: Callable[[], Any]) -> Any:
    """Return what ``work`` does on a connection of its own."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert found, "failed or stuck"
    return found[0]


def test_a_state_names_all_that_a_result_depends_on(store: models.Store) -> None:
    (state,) = read_states([store.pk])
    assert (state.store_id, state.ttl_s) == (store.pk, 3600)
    assert (state.model, state.dim, state.version) == ("words:64", 64, "1")
    assert state.generation > 0


def test_a_space_that_is_made_anew_is_another_state(store: models.Store) -> None:
    before = read_states([store.pk])
    models.EmbeddingSpace.objects.filter(pk=store.space_id).update(version="2")
    assert read_states([store.pk])[0].version == "2"
    assert read_states([store.pk]) != before


def test_states_come_in_order_and_only_of_stores_that_exist(store: models.Store) -> None:
    other = StoreFactory()
    states = read_states([other.pk, 10**9, store.pk, other.pk])
    assert [state.store_id for state in states] == [store.pk, other.pk]
    assert read_states([]) == []


def test_two_stores_begin_with_different_numbers() -> None:
    # Else a restored backup would meet what was kept under the same numbers before.
    assert len({number(StoreFactory()) for _ in range(5)}) == 5


def test_a_change_counts_for_its_own_store_alone(store: models.Store) -> None:
    other = StoreFactory()
    before = number(store), number(other)
    models.Chunk.objects.filter(store=store, ordinal=0).update(enabled=False)
    assert number(store) > before[0]
    assert number(other) == before[1]


def test_it_counts_at_commit_and_for_others_not_before(store: models.Store) -> None:
    before = number(store)
    with transaction.atomic():
        models.Chunk.objects.filter(store=store).update(enabled=False)
        (ours,) = read_states([store.pk])
        assert ours.is_ours
        assert elsewhere(lambda: number(store)) == before
    assert number(store) > before


def test_a_change_in_a_savepoint_is_ours_too(store: models.Store) -> None:
    with transaction.atomic():
        with transaction.atomic():
            models.Chunk.objects.filter(store=store).update(enabled=False)
        assert read_states([store.pk])[0].is_ours


def test_what_is_rolled_back_never_was(store: models.Store) -> None:
    before = number(store)
    with transaction.atomic():
        models.Chunk.objects.filter(store=store).update(enabled=False)
        transaction.set_rollback(True)
    assert number(store) == before


def test_a_change_after_a_savepoint_that_failed_counts(store: models.Store) -> None:
    before = number(store)
    with transaction.atomic():
        with transaction.atomic():
            models.Chunk.objects.filter(store=store).update(enabled=False)
            transaction.set_rollback(True)
        assert not read_states([store.pk])[0].is_ours
        models.Chunk.objects.filter(store=store).update(content_type="manual")
    assert number(store) > before


def test_each_of_two_that_commit_in_another_order_than_they_began_counts(
    store: models.Store,
) -> None:
    """The second to begin commits first; a number from a sequence would not grow with the first."""
    first, second = (models.Chunk.objects.filter(store=store, ordinal=i) for i in (0, 1))
    began, may_end = threading.Event(), threading.Event()
    numbers = [number(store)]

    def slow() -> None:
        with transaction.atomic():
            first.update(enabled=False)
            began.set()
            may_end.wait(20)

    thread = threading.Thread(target=lambda: (slow(), connections.close_all()))
    thread.start()
    began.wait(20)
    second.update(enabled=False)
    numbers.append(number(store))
    assert compact_generations() > 0
    numbers.append(number(store))
    may_end.set()
    thread.join(20)
    numbers.append(number(store))
    assert numbers[0] < numbers[1] == numbers[2] < numbers[3]


def test_writers_of_one_store_do_not_wait_for_each_other(store: models.Store) -> None:
    with transaction.atomic():
        bump_generation([store.pk])
        assert elsewhere(lambda: bump_generation([store.pk])) is None


def test_folding_changes_no_number(store: models.Store) -> None:
    before = number(store)
    assert compact_generations() > 0
    assert number(store) == before
    assert compact_generations() == 0
    bump_generation([store.pk])
    assert number(store) > before


def test_one_s_own_changes_are_not_folded_before_the_commit(store: models.Store) -> None:
    compact_generations()
    with transaction.atomic():
        bump_generation([store.pk])
        assert compact_generations() == 0
        assert read_states([store.pk])[0].is_ours


def test_the_upkeep_folds_and_forgets_stores_that_are_gone(store: models.Store) -> None:
    other = StoreFactory()
    recover_jobs()
    assert ask("SELECT count(*) FROM rag_store_change") == [(0,)]
    assert ask("SELECT count(*) FROM rag_store_generation WHERE store_id = %s", other.pk) == [(1,)]
    other.delete()
    recover_jobs()
    assert ask("SELECT count(*) FROM rag_store_generation WHERE store_id = %s", other.pk) == [(0,)]


def test_numbers_only_grow_while_others_write_and_fold(store: models.Store) -> None:
    is_over = threading.Event()

    def write(seed: int) -> None:
        dice = random.Random(seed)
        while not is_over.is_set():
            with transaction.atomic():
                bump_generation([store.pk])
                if dice.random() < 0.3:
                    transaction.set_rollback(True)
        connections.close_all()

    def fold() -> None:
        while not is_over.is_set():
            compact_generations()
        connections.close_all()

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(2)]
    threads += [threading.Thread(target=fold) for _ in range(2)]
    for thread in threads:
        thread.start()
    numbers = [number(store) for _ in range(300)]
    is_over.set()
    for thread in threads:
        thread.join(20)
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 10


def test_a_bulk_load_counts_once(store: models.Store) -> None:
    before, embedder = number(store), WordsEmbedder(64)
    file = FileFactory(store=store, revision=1)
    compact_generations()
    texts = [f"loaded passage {i}" for i in range(20)]
    rows = [
        LoadRow(file.pk, Chunk(i, 0, len(t), 0, t, 3), str(i), t, embedder.embed_query(t))
        for i, t in enumerate(texts)
    ]
    load_chunks(target=LoadTarget(store.pk, store.space_id, 100.0), rows=rows, processes=1)
    assert number(store) > before
    assert ask("SELECT count(*) FROM rag_store_change") == [(1,)]


@pytest.mark.parametrize(
    "table", ["rag_chunk", "rag_chunk_lex", "rag_chunk_vec", "rag_term_stat", "rag_file"]
)
def test_emptying_a_table_counts_for_every_store(table: str, store: models.Store) -> None:
    other = StoreFactory()
    before = number(store), number(other)
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {table} CASCADE")
    assert number(store) > before[0]
    assert number(other) > before[1]


def test_what_is_rolled_up_counts_even_where_sizes_stay(store: models.Store) -> None:
    ask(
        "INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len)"
        " VALUES (%s, '{5}', '{1}', 0, 0) RETURNING 1",
        store.pk,
    )
    before = number(store)
    stats.roll_up([store.pk])
    assert number(store) > before


def test_statistics_count_when_they_are_folded(store: models.Store) -> None:
    before = number(store)
    stats.recount_statistics(store.pk)
    assert number(store) > before
    before = number(store)
    stats.pack_statistics(store.pk)
    assert number(store) > before


UNCONCERNED: dict[str, Callable[[models.Store, models.File], object]] = {
    "progress": lambda store, file: _set(file, progress={"stage": "embedding", "share": 0.5}),
    "status": lambda store, file: _set(file, status="processing"),
    "error": lambda store, file: _set(file, error={"message": "x"}),
    "text": lambda store, file: _set(file, canonical_text="x" * 5_000_000),
    "the same name": lambda store, file: _set(file, name=file.name, metadata=file.metadata),
    "saved unchanged": lambda store, file: (file.save(), store.save()),
    "a file without chunks": lambda store, file: FileFactory(store=store),
    "a draft": lambda store, file: ask(
        "INSERT INTO rag_chunk_draft (file_id, ordinal, fingerprint, facts, text, sha256, is_han,"
        " len, w) VALUES (%s, 0, '', '{}', '', '', false, 0, '{1:1}/10') RETURNING 1",
        file.pk,
    ),
    "a user": lambda store, file: UserFactory(groups=[GroupFactory()]).groups.clear(),
    "a question": lambda store, file: models.QueryLog.objects.create(
        query="x", store_ids=[store.pk], settings_hash="", mode="", top_k=1, chunk_ids=[]
    ),
}


def _set(file: models.File, **values: Any) -> int:
    return models.File.objects.filter(pk=file.pk).update(**values)


@pytest.mark.parametrize("name", UNCONCERNED)
def test_what_no_search_sees_does_not_count(name: str, store: models.Store) -> None:
    file = models.File.objects.get(store=store)
    before = number(store)
    UNCONCERNED[name](store, file)
    assert number(store) == before


def test_every_column_that_the_search_shows_of_a_file_is_watched() -> None:
    statement = (Path(postgres.__file__).parent / "search/hybrid.sql").read_text("utf-8")
    shown = set(re.findall(r"\bd\.(\w+)", statement.partition("SELECT p.chunk_id, p.score")[2]))
    ((definition,),) = ask(
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'rag_note_update'"
        " AND tgrelid = 'rag_file'::regclass"
    )
    watched = set(re.findall(r"\w+", definition.partition("UPDATE OF ")[2].partition(" ON ")[0]))
    assert {"name", "metadata"} <= shown
    assert shown - {"id"} <= watched


def test_the_migration_goes_back_and_forth(store: models.Store) -> None:
    migration = import_module("rag.migrations.0004_store_generation")
    operations = migration.Migration.operations
    try:
        _run(operation.reverse_sql for operation in reversed(operations))
        assert ask("SELECT to_regclass('rag_store_change')") == [(None,)]
        left = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'rag\\_note%%'"
        assert ask(left) == [(0,)]
        models.Chunk.objects.filter(store=store).update(enabled=False)
    finally:
        _run(operation.sql for operation in operations)
    before = number(store)
    models.Chunk.objects.filter(store=store).update(enabled=True)
    assert number(store) > before


def _run(statements: Iterable[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_reading_does_without_prepared_statements_behind_a_pooler(store: models.Store) -> None:
    plain = read_states([store.pk])
    connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = True
    try:
        assert read_states([store.pk]) == plain
    finally:
        connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = False
