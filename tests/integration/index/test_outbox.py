"""The outbox: every way that changes the index is noted, at commit, once it is switched on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from django.db import connection, connections, transaction

from rag import models
from rag.core.access import Scope
from rag.core.documents import Chunk
from rag.models.outbox import WORDS
from rag.providers.postgres.lexical.reweigh import reweigh_files
from rag.providers.postgres.outbox import rows as outbox
from rag.providers.postgres.outbox.feed_rows import (
    deleted_chunks,
    feedable_spaces,
    read_vectors,
    read_words,
)
from rag.providers.postgres.outbox.rows import (
    enable_outbox,
    enqueue_all,
    enqueue_chunks,
    mark_fed,
    outbox_lock,
    outbox_state,
    purge_fed,
    read_pending,
    recent_changes,
)
from rag.providers.postgres.vectors.backfill import EmbeddableChunk, delete_vectors, write_vectors
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.edit import edit_chunk
from rag.services.files.edit import set_chunks_enabled
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, SpaceFactory, StoreFactory, publish
from tests.fakes.words_embedder import WordsEmbedder
from tests.integration.index_desk import ask

OPERATOR = Scope.operator()
Noted = set[tuple[int, int]]


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> models.File:
    use_words_embedder(monkeypatch, settings)
    enable_outbox(True)
    file = FileFactory(store=StoreFactory())
    publish(file, "the pump stops", "the valve is blue")
    noted()
    return file


def noted() -> Noted:
    """Return what was noted since it was last asked: (space, chunk), 0 for words."""
    rows = set(models.OutboxRow.objects.values_list("space_id", "chunk_id"))
    models.OutboxRow.objects.all().delete()
    return rows


def both(file: models.File, *chunk_ids: int) -> Noted:
    """Return these chunks' vectors and words."""
    return {(space, chunk) for chunk in chunk_ids for space in (WORDS, file.store.space_id)}


def ids(file: models.File) -> list[int]:
    return list(
        models.Chunk.objects.live().filter(file=file).order_by("pk").values_list("pk", flat=True)
    )


def _edit(file: models.File) -> Noted:
    chunk = models.Chunk.objects.get(pk=ids(file)[0])
    edit_chunk(
        scope=OPERATOR,
        chunk_id=chunk.pk,
        text="another text",
        by=None,
        expected_revision=chunk.revision,
    )
    return both(file, chunk.pk)


def _add(file: models.File) -> Noted:
    return both(file, add_chunk(scope=OPERATOR, file_id=file.pk, text="a new one", by=None).pk)


def _delete(file: models.File) -> Noted:
    gone = ids(file)[0]
    delete_chunks(scope=OPERATOR, chunk_ids=[gone], by=None)
    return both(file, gone)


def _disable(file: models.File) -> Noted:
    set_chunks_enabled(scope=OPERATOR, chunk_ids=ids(file)[1:], enabled=False)
    return both(file, ids(file)[1])


def _publish(file: models.File) -> Noted:
    first, second = ids(file)
    publish(file, "the pump stops", "the valve is green")
    # An unchanged text gets the new vector that the draft brings.
    return both(file, first, second, *ids(file))


def _restrict(file: models.File) -> Noted:
    file.restricted_to.add(GroupFactory())
    return both(file, *ids(file))


def _retype(file: models.File) -> Noted:
    models.File.objects.filter(pk=file.pk).update(content_type="manual")
    return both(file, *ids(file))


def _delete_file(file: models.File) -> Noted:
    before = ids(file)
    file.delete()
    return both(file, *before)


def _delete_store(file: models.File) -> Noted:
    before = ids(file)
    file.store.delete()
    return both(file, *before)


def _reweigh(file: models.File) -> Noted:
    reweigh_files([file.pk], 3.0)
    return {(WORDS, chunk) for chunk in ids(file)}


def _fill_space(file: models.File) -> Noted:
    space = SpaceFactory(model="words:32", dim=32)
    passages = [EmbeddableChunk(chunk, 1, "") for chunk in ids(file)]
    vectors = WordsEmbedder(32).embed_passages(["a"] * len(passages))
    write_vectors(space.pk, passages, vectors)
    delete_vectors(space.pk, file.store_id)
    return {(space.pk, chunk) for chunk in ids(file)}


def _load(file: models.File) -> Noted:
    other = FileFactory(store=file.store, revision=1)
    text, vector = "loaded in bulk", WordsEmbedder(file.store.space.dim).embed_query("bulk")
    row = LoadRow(other.pk, Chunk(0, 0, len(text), 0, text, 3), "d", text, vector)
    load_chunks(target=LoadTarget(file.store_id, file.store.space_id), rows=[row], processes=1)
    return both(file, *ids(other))


WAYS = (
    _edit,
    _add,
    _delete,
    _disable,
    _publish,
    _restrict,
    _retype,
    _delete_file,
    _delete_store,
    _reweigh,
    _fill_space,
    _load,
)


@pytest.mark.django_db
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_each_way_that_changes_the_index_is_noted(
    way: Callable[[models.File], Noted], file: models.File
) -> None:
    wanted, found = way(file), noted()
    assert wanted <= found
    # A new mean length rewrites the words of the store's other chunks too.
    assert {space for space, _ in found - wanted} <= {WORDS}


@pytest.mark.django_db
def test_nothing_is_noted_before_it_is_switched_on_or_after_a_rollback(file: models.File) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        _disable(file)
        raise ZeroDivisionError
    assert noted() == set()
    enable_outbox(False)
    _disable(file)
    SpaceFactory(model="words:16", dim=16)
    _fill_space(file)
    assert (noted(), outbox_state().is_on) == (set(), False)


@pytest.mark.django_db
def test_a_new_installation_notes_nothing() -> None:
    publish(FileFactory(), "the pump stops")
    assert not outbox_state().is_on
    assert noted() == set()


@pytest.mark.django_db
def test_waiting_rows_come_oldest_first_and_each_chunk_once(file: models.File) -> None:
    first, second = ids(file)
    for space, chunk in ((WORDS, second), (WORDS, first), (7, first), (WORDS, second)):
        enqueue_chunks(space, [chunk])
    waiting = read_pending(10)
    assert waiting.chunks == {WORDS: [second, first], 7: [first]}
    assert len(waiting.row_ids) == 4
    assert read_pending(1).row_ids == waiting.row_ids[:1]
    # Chunks that changed again after they were read wait on.
    enqueue_chunks(WORDS, [second])
    mark_fed(waiting.row_ids)
    assert read_pending(10).chunks == {WORDS: [second]}
    assert outbox_state().n_waiting == 1


@pytest.mark.django_db
def test_what_was_fed_is_still_looked_at_until_every_search_sees_it(file: models.File) -> None:
    enqueue_chunks(WORDS, ids(file))
    mark_fed(read_pending(10).row_ids)
    assert purge_fed() == 0
    assert sorted(recent_changes(WORDS, 10)) == ids(file)
    assert recent_changes(WORDS, 1) == ids(file)[1:]
    # Twice is told twice, so that whoever reads as many as asked for knows that there are more.
    enqueue_chunks(WORDS, ids(file)[1:])
    assert recent_changes(WORDS, 2) == [ids(file)[1]] * 2
    models.OutboxRow.objects.filter(fed_at=None).delete()
    late = f"fed_at - interval '{outbox.SETTLE_S + 1} s'"
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE rag_outbox SET fed_at = {late}")
    assert purge_fed() == 2
    assert recent_changes(WORDS, 10) == []


@pytest.mark.django_db
def test_the_lag_is_that_of_the_oldest_row_that_waits(file: models.File) -> None:
    assert (outbox_state().n_waiting, outbox_state().lag_s) == (0, 0.0)
    enqueue_chunks(WORDS, ids(file))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE rag_outbox SET at = at - interval '90 s'")
    enqueue_chunks(WORDS, ids(file))
    state = outbox_state()
    assert state.is_on and state.n_waiting == 4
    assert 89 < state.lag_s < 120
    assert enqueue_all() == 4


@pytest.mark.django_db
def test_rows_are_read_as_they_are_now(file: models.File) -> None:
    space, (first, second) = file.store.space_id, ids(file)
    group = GroupFactory()
    file.restricted_to.add(group)
    set_chunks_enabled(scope=OPERATOR, chunk_ids=[second], enabled=False)
    (vector,), (words,) = read_vectors(space, [first, second, 0]), read_words([first, second, 0])
    wanted = WordsEmbedder(64).embed_query("the pump stops")
    assert vector.numbers == pytest.approx(wanted.tolist(), abs=1e-3)
    facts = (first, file.store_id, file.pk, file.content_type, (group.pk,))
    for row in (vector, words):
        assert (row.chunk_id, row.store_id, row.file_id, row.content_type, row.groups) == facts
    ((raw,),) = ask(f"SELECT w::text FROM rag_chunk_lex WHERE chunk_id = {first}")
    assert isinstance(words.numbers, dict) and len(words.numbers) == raw.count(":")
    for key, weight in words.numbers.items():
        assert f"{key}:{weight:g}"[:12] in raw
    assert set(deleted_chunks(WORDS, [first, second, 0])) == {second, 0}
    assert deleted_chunks(space, [first, second, 0]) == [second, 0]
    assert feedable_spaces()[space] == 64


@pytest.fixture
def in_another(transactional_db: None) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Return what runs work on a connection of its own, to its end."""

    def run(work: Callable[[], None]) -> None:
        def whole() -> None:
            try:
                work()
            finally:
                connections.close_all()

        thread = threading.Thread(target=whole)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    yield run
    enable_outbox(False)


def test_a_transaction_that_commits_late_is_not_lost_behind_later_rows(
    in_another: Callable[[Callable[[], None]], None],
) -> None:
    def feed_all() -> None:
        mark_fed(read_pending(100).row_ids)

    with transaction.atomic():
        enqueue_chunks(WORDS, [1])
        in_another(lambda: enqueue_chunks(WORDS, [2]))
        in_another(feed_all)
    assert read_pending(100).chunks == {WORDS: [1]}


def test_one_feeds_at_a_time_and_who_dies_holds_nothing(
    in_another: Callable[[Callable[[], None]], None],
) -> None:
    held: list[bool] = []

    def try_it() -> None:
        with outbox_lock(is_waiting=False) as is_ours:
            held.append(is_ours)

    with outbox_lock(is_waiting=False) as is_ours:
        assert is_ours
        in_another(try_it)
        with connection.cursor() as cursor:
            # As kill -9 does: the connection that holds the lock ends.
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        in_another(try_it)
    with outbox_lock(is_waiting=True) as is_ours:
        assert is_ours
    assert held == [False, True]


@pytest.mark.django_db
def test_the_migration_goes_back_and_forth() -> None:
    *_, triggers = import_module("rag.migrations.0015_outbox").Migration.operations
    left = "SELECT count(*) FROM pg_trigger WHERE tgname = 'rag_outbox' AND tgparentid = 0"
    with connection.cursor() as cursor:
        assert ask(left) == [(2,)]
        cursor.execute(triggers.reverse_sql)
        assert ask(left) == [(0,)]
        cursor.execute(triggers.sql)
        assert ask(left) == [(2,)]
    assert not outbox_state().is_on
