"""Words made anew: what differs is written, what does not is left, statistics are exact."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from django.db import transaction

from rag import models
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.backfill import read_term_rows, write_terms
from rag.providers.postgres.lexical.pack_rows import TermJob, TermPack, pack_terms
from rag.services.chunks.edit import edit_chunk
from rag.services.reindex import rebuild as service
from rag.services.reindex.runs import ReindexOptions, start_reindex
from rag.services.reindex.worker import run_reindex
from rag.stages.text.terms import VERSION, index_terms
from tests.integration.index_desk import ask, assert_whole
from tests.integration.move_world import OPERATOR, answers, filled_store, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]


def make_words(store: models.Store, **values: Any) -> models.ReindexRun:
    run, _ = start_reindex(scope=OPERATOR, store=store, what="lexical", **values)
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.error) == ("done", None)
    return run


def statistics(store: models.Store) -> list[Any]:
    store.refresh_from_db()
    query = "SELECT key, df FROM rag_term_df WHERE store_id = %s AND df <> 0 ORDER BY key"
    return [store.n_chunks, store.sum_len, *ask(query, store.pk)]


def settled_store(n: int) -> models.Store:
    """The first run also brings the mean length, by which words are weighed, to the true one."""
    store = filled_store(n)
    make_words(store)
    store.refresh_from_db()
    return store


def rows(store: models.Store) -> list[Any]:
    """Return the rows of words; weights to three places, which is what they are compared by."""
    return [(*row[:3], re.sub(r"(\.\d{1,3})\d*", r"\1", row[3])) for row in _rows(store)]


def _rows(store: models.Store) -> list[Any]:
    return ask(
        "SELECT chunk_id, len, is_han, w::text FROM rag_chunk_lex WHERE store_id = %s ORDER BY 1",
        store.pk,
    )


def test_words_that_are_right_are_not_written() -> None:
    store = settled_store(60)
    before = ask("SELECT chunk_id, xmin::text FROM rag_chunk_lex ORDER BY 1")
    said = statistics(store)
    run = make_words(store)
    assert run.report["changed"] == 0
    assert ask("SELECT chunk_id, xmin::text FROM rag_chunk_lex ORDER BY 1") == before
    assert statistics(store) == said
    assert store.terms_version == VERSION


def test_another_way_of_cutting_words_changes_rows_and_statistics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = settled_store(60)
    wanted, right = rows(store), answers(store)

    def shouted(text: str) -> Counter[str]:
        return Counter({f"{term}!": n for term, n in index_terms(text).items()})

    with monkeypatch.context() as patch:
        patch.setattr("rag.providers.postgres.lexical.bm25.index_terms", shouted)
        assert make_words(store).report["changed"] == 60
    assert rows(store) != wanted
    assert_whole(store)
    assert make_words(store).report["changed"] == 60
    assert rows(store) == wanted
    assert_whole(store)
    assert answers(store) == right


def test_lost_rows_come_back_and_rows_without_a_chunk_go() -> None:
    store = settled_store(40)
    wanted = rows(store)
    lost = wanted[3][0]
    ask("DELETE FROM rag_chunk_lex WHERE chunk_id = %s RETURNING 1", lost)
    stats.recount_statistics(store.pk)
    retired = models.Chunk.objects.live().filter(store=store).order_by("-pk").first()
    assert retired is not None
    models.Chunk.objects.filter(pk=retired.pk).update(is_live=False)
    make_words(store)
    assert rows(store) == [row for row in wanted if row[0] != retired.pk]
    said = statistics(store)
    stats.recount_statistics(store.pk)
    assert statistics(store) == said


def test_a_chunk_that_was_edited_meanwhile_keeps_its_own_words() -> None:
    store = filled_store(10)
    chunk = models.Chunk.objects.live().filter(store=store).order_by("pk").first()
    assert chunk is not None
    models.Store.objects.update(avg_len_frozen=5)
    pack = pack_terms(TermJob(store.pk, 20.0, read_term_rows([chunk.pk])))
    edit_chunk(scope=OPERATOR, chunk_id=chunk.pk, text="A turbine.", by=None, expected_revision=1)
    after = rows(store)
    assert pack.ids == [chunk.pk]
    assert not write_terms(store.pk, pack)
    assert rows(store) == after
    stats.roll_up([store.pk])
    assert_whole_words(store)


def test_a_row_that_was_made_anew_meanwhile_is_not_counted_twice() -> None:
    store = settled_store(10)
    wanted = rows(store)
    ask("UPDATE rag_chunk_lex SET w = '{1:1}/1000000000' WHERE store_id = %s RETURNING 1", store.pk)
    stats.recount_statistics(store.pk)
    ids = [row[0] for row in wanted]
    pack = pack_terms(TermJob(store.pk, store.avg_len_frozen, read_term_rows(ids)))
    assert pack.ids == ids
    # Somebody else writes one of them first; its revision stays.
    first = pack_terms(TermJob(store.pk, store.avg_len_frozen, read_term_rows(ids[:1])))
    assert write_terms(store.pk, first)
    half_way = _rows(store)
    assert not write_terms(store.pk, pack)
    assert _rows(store) == half_way
    assert make_words(store).report["changed"] == 9
    assert rows(store) == wanted
    assert_whole_words(store)


def test_a_row_that_came_meanwhile_is_compared_anew() -> None:
    store = settled_store(10)
    wanted = rows(store)
    lost = wanted[4][0]
    ask("DELETE FROM rag_chunk_lex WHERE chunk_id = %s RETURNING 1", lost)
    stats.recount_statistics(store.pk)
    pack = pack_terms(TermJob(store.pk, store.avg_len_frozen, read_term_rows([lost])))
    assert write_terms(store.pk, pack)
    assert not write_terms(store.pk, pack)
    stats.roll_up([store.pk])
    assert rows(store) == wanted
    assert_whole_words(store)


def test_a_run_compares_a_batch_anew_that_somebody_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = settled_store(10)
    wanted = rows(store)
    ask("UPDATE rag_chunk_lex SET w = '{1:1}/1000000000' WHERE store_id = %s RETURNING 1", store.pk)
    stats.recount_statistics(store.pk)
    tries: list[int] = []

    def interrupted(store_id: int, pack: TermPack) -> bool:
        tries.append(len(pack.ids))
        if len(tries) == 1:
            with transaction.atomic():
                ask(
                    f"UPDATE rag_chunk_lex SET len = len WHERE chunk_id = {wanted[0][0]} RETURNING 1"
                )
        return write_terms(store_id, pack)

    monkeypatch.setattr(service, "write_terms", interrupted)
    assert make_words(store).report["changed"] == 10
    assert tries == [10, 10]
    assert rows(store) == wanted
    assert_whole_words(store)


def assert_whole_words(store: models.Store) -> None:
    said = statistics(store)
    stats.recount_statistics(store.pk)
    assert statistics(store) == said


def test_only_stale_passes_over_a_store_that_is_current() -> None:
    store = filled_store(10)
    make_words(store)
    ask("UPDATE rag_chunk_lex SET len = 99 WHERE store_id = %s RETURNING 1", store.pk)
    assert "changed" not in make_words(store, options=ReindexOptions(only_stale=True)).report
    assert make_words(store).report["changed"] == 10


def test_a_run_goes_on_from_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled_store(40)
    monkeypatch.setattr(service, "BATCH", 10)
    run, _ = start_reindex(scope=OPERATOR, store=store, what="lexical")
    ids = list(
        models.Chunk.objects.live().filter(store=store).order_by("pk").values_list("pk", flat=True)
    )
    models.ReindexRun.objects.update(position=ids[29], state="running")
    seen: list[int] = []
    run_reindex(run_id=run.pk, on_progress=lambda progress: seen.append(progress.n_done))
    assert seen == [10]


def test_processes_make_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    store = settled_store(60)
    wanted = rows(store)
    ask("UPDATE rag_chunk_lex SET len = 99 WHERE store_id = %s RETURNING 1", store.pk)
    monkeypatch.setattr(service, "FEW", 10)
    monkeypatch.setattr(service, "BATCH", 20)
    make_words(store)
    assert rows(store) == wanted


@pytest.mark.parametrize(
    ("workers", "n_chunks", "processes"),
    [(None, 60, 4), (None, 9, 0), (1, 60, 0), (2, 60, 2), (2, 9, 0), (8, 60, 8)],
)
def test_as_many_processes_cut_words_as_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, workers: int | None, n_chunks: int, processes: int
) -> None:
    store = filled_store(2)
    monkeypatch.setattr(service, "FEW", 10)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(4)))
    options = ReindexOptions(workers=workers)
    run, _ = start_reindex(scope=OPERATOR, store=store, what="lexical", options=options)
    assert service._processes(run, n_chunks) == processes


def test_a_run_with_one_worker_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    store = settled_store(60)
    wanted = rows(store)
    ask("UPDATE rag_chunk_lex SET len = 99 WHERE store_id = %s RETURNING 1", store.pk)
    monkeypatch.setattr(service, "FEW", 10)
    monkeypatch.setattr(service, "ProcessPoolExecutor", None)
    assert make_words(store, options=ReindexOptions(workers=1)).report["changed"] == 60
    assert rows(store) == wanted
