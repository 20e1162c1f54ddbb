"""A store moves to another model: built beside, judged, swapped by one UPDATE, rolled back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.errors import ConflictError, InvalidInputError
from rag.providers.postgres.vectors.backfill import (
    chunks_without_vector,
    reindex_lock,
    switch_space,
)
from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.edit import edit_chunk
from rag.services.files.edit import set_chunks_enabled
from rag.services.ingest.indexing import index_file
from rag.services.ingest.staged_revision import stage_revision
from rag.services.reindex.move import (
    GRACE_S,
    cancel_reindex,
    drop_old_space,
    drop_old_space_when_due,
    force_swap,
    purge_space,
    roll_back_space,
    swap_space,
)
from rag.services.reindex.runs import start_reindex
from rag.services.reindex.worker import resume_reindex, run_reindex
from tests.factories import FileFactory, GroupFactory
from tests.integration.index_desk import ask, put, run_job
from tests.integration.move_world import (
    NEW,
    OPERATOR,
    Failing,
    answers,
    filled_store,
    golden,
    move,
    start_move,
    two_models,
)

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]


def rows(space_id: int) -> dict[int, Any]:
    return {
        row[0]: row[1:]
        for row in ask(
            f"SELECT chunk_id, enabled, restricted, content_type, embedding::text FROM rag_chunk_vec_s{space_id}"
        )
    }


def assert_complete(store: models.Store, *space_ids: int) -> None:
    live = set(models.Chunk.objects.live().filter(store=store).values_list("pk", flat=True))
    for space_id in space_ids:
        assert set(rows(space_id)) == live


def test_a_move_fills_judges_and_swaps() -> None:
    store = filled_store()
    golden(store)
    old = store.space_id
    run = move(store)
    assert (run.state, run.error) == ("swapped", None)
    assert run.report["passed"] and run.report["recall"] == 1.0
    compared = run.report["compared"]["golden questions"]
    assert compared["difference"] >= -run.report["margin"]
    store.refresh_from_db()
    assert store.space.model == NEW
    assert store.space.state == "live"
    assert models.EmbeddingSpace.objects.get(pk=old).state == "retired"
    assert_complete(store, old, store.space_id)
    assert models.EvaluationRun.objects.filter(store=store).count() == 2


def test_a_worse_space_is_refused_and_force_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled_store()
    golden(store)
    before = answers(store)
    # A model to which all texts are the same.
    monkeypatch.setattr(
        "tests.integration.move_world.Failing.embed_query",
        lambda self, text: _ones(self.dim) if self.dim == 32 else _words(self, text),
    )
    models.Store.objects.filter(pk=store.pk).update(retrieval={"mode": "semantic"})
    store.refresh_from_db()
    run = move(store)
    assert run.state == "refused"
    assert "nDCG@10 of golden questions fell by" in run.report["reasons"][0]
    assert "refused" in str(run.error["message"])
    store.refresh_from_db()
    assert store.space.model == "words:64"
    assert answers(store) == before
    force_swap(run=run, by="ann")
    run.refresh_from_db()
    assert (run.state, run.report["forced_by"]) == ("swapped", "ann")


def _ones(dim: int) -> Any:
    import numpy as np  # where this test needs it

    return np.full(dim, dim**-0.5, dtype=np.float32)


def _words(self: Any, text: str) -> Any:
    from tests.fakes.words_embedder import WordsEmbedder

    return WordsEmbedder.embed_query(self, text)


def test_nothing_to_judge_by_is_a_reason_to_refuse() -> None:
    run = move(filled_store(20))
    assert (run.state, run.report["reasons"]) == (
        "refused",
        ["no golden questions and no folder to compare on"],
    )
    run = move(filled_store(20), is_forced=True)
    assert (run.state, run.report["forced_by"]) == ("swapped", "operator")


def test_edits_and_new_files_go_to_both_spaces_before_and_after_the_swap() -> None:
    store = filled_store(40)
    old = store.space_id
    run = move(store, is_forced=True, is_swapped=False)
    assert run.state == "ready"
    for swapped in (False, True):
        if swapped:
            force_swap(run=run)
        store.refresh_from_db()
        first = models.Chunk.objects.live().filter(store=store).order_by("pk").first()
        assert first is not None
        edited = edit_chunk(
            scope=OPERATOR,
            chunk_id=first.pk,
            text=f"A turbine {swapped}.",
            by=None,
            expected_revision=first.revision,
        )
        added = add_chunk(scope=OPERATOR, file_id=first.file_id, text="A crane.", by=None)
        put_file = put(store, f"A winch turns {swapped}.\n", f"w{swapped}.txt")
        index_file(file_id=put_file.pk)
        delete_chunks(scope=OPERATOR, chunk_ids=[added.pk], by=None)
        last = models.Chunk.objects.live().filter(store=store).order_by("pk").last()
        assert last is not None
        set_chunks_enabled(scope=OPERATOR, chunk_ids=[last.pk], enabled=False)
        group = GroupFactory()
        last.file.restricted_to.add(group)
        assert_complete(store, old, run.target_id)
        for space_id in (old, run.target_id):
            assert rows(space_id)[last.pk][:2] == (False, [group.pk])
            assert ask(
                f"SELECT count(*) FROM rag_chunk_vec_s{space_id} WHERE chunk_id = %s", edited.pk
            ) == [(1,)]
    roll_back_space(run=run)
    store.refresh_from_db()
    assert store.space_id == old


def test_a_model_that_is_down_stops_nobody_and_the_gap_is_filled_before_the_swap() -> None:
    store = filled_store(40)
    run = move(store, is_forced=True, is_swapped=False)
    Failing.left = 0
    first = models.Chunk.objects.live().filter(store=store).order_by("pk").first()
    assert first is not None
    edit_chunk(scope=OPERATOR, chunk_id=first.pk, text="A turbine.", by=None, expected_revision=1)
    assert chunks_without_vector(run.target_id, store.pk) == [first.pk]
    with transaction.atomic():
        assert switch_space(store.pk, run.source_id, run.target_id) == 1
    store.refresh_from_db()
    assert store.space_id == run.source_id
    Failing.left = None
    force_swap(run=run)
    assert_complete(store, run.source_id, run.target_id)


def test_a_provider_that_fails_leaves_a_run_that_is_resumed() -> None:
    store = filled_store(200)
    before = answers(store)
    Failing.left = 2
    run = move(store, is_forced=True)
    assert (run.state, run.error["message"]) == ("failed", "The model is down.")
    assert len(rows(run.target_id)) == 128
    assert answers(store) == before
    again, is_new = start_reindex(scope=OPERATOR, store=store, what="embeddings", model=NEW)
    assert (again.pk, is_new) == (run.pk, False)
    Failing.left = None
    kept = rows(run.target_id)
    run_reindex(run_id=resume_reindex(run=run).pk)
    run.refresh_from_db()
    assert run.state == "swapped"
    assert kept.items() <= rows(run.target_id).items()


def test_two_orders_are_one_run_and_two_workers_never_work_at_once() -> None:
    store = filled_store(20)
    run = start_move(store, is_forced=True)
    assert start_move(store, is_forced=True).pk == run.pk
    with pytest.raises(ConflictError, match="already"):
        start_reindex(scope=OPERATOR, store=store, what="lexical")
    with reindex_lock(run.pk), pytest.raises(OperationalError, match="another process"):
        run_reindex(run_id=run.pk)
    run_reindex(run_id=run.pk)
    assert run_reindex(run_id=run.pk) is False
    run.refresh_from_db()
    assert run.state == "swapped"


def test_a_retired_space_is_dropped_and_not_before_searches_have_ended() -> None:
    store = filled_store(20)
    run = move(store, is_forced=True)
    old = run.source_id
    assert GRACE_S - 5 < drop_old_space(run=run) <= GRACE_S
    assert ProcrastinateJob.objects.filter(task_name="rag.retire_run").count() == 1
    run.refresh_from_db()
    assert run.state == "swapped"
    models.ReindexRun.objects.update(swapped_at=timezone.now() - timedelta(seconds=GRACE_S + 1))
    assert drop_old_space(run=run) == 0
    with pytest.raises(ConflictError):
        roll_back_space(run=run)
    purge_space(run_id=run.pk, space_id=old)
    assert ask("SELECT to_regclass(%s)", f"rag_chunk_vec_s{old}") == [(None,)]
    assert not models.EmbeddingSpace.objects.filter(pk=old).exists()
    store.refresh_from_db()
    assert all(answers(store).values())


def test_a_rollback_takes_the_wish_to_retire_back_for_good() -> None:
    store = filled_store(20)
    run = move(store, is_forced=True)
    drop_old_space(run=run)
    first = models.ReindexRun.objects.get(pk=run.pk).swapped_at
    assert first is not None
    roll_back_space(run=run)
    swap_space(run=run)
    run.refresh_from_db()
    assert run.swapped_at is not None and run.swapped_at > first
    old = timezone.now() - timedelta(seconds=GRACE_S + 1)
    models.ReindexRun.objects.update(swapped_at=old)
    drop_old_space_when_due(run_id=run.pk, swapped_at=first.isoformat())
    run.refresh_from_db()
    assert run.state == "swapped"
    drop_old_space_when_due(run_id=run.pk, swapped_at=old.isoformat())
    run.refresh_from_db()
    assert run.state == "done"


def test_a_space_that_others_use_loses_only_the_stores_own_vectors() -> None:
    store, other = filled_store(20), filled_store(10)
    assert store.space_id == other.space_id
    run = move(store, is_forced=True)
    models.ReindexRun.objects.update(swapped_at=timezone.now() - timedelta(seconds=GRACE_S + 1))
    drop_old_space(run=run)
    purge_space(run_id=run.pk, space_id=other.space_id)
    assert_complete(other, other.space_id)


def test_a_cancelled_move_leaves_the_live_space_and_removes_the_new_one() -> None:
    store = filled_store(200)
    run = start_move(store)
    run_reindex(run_id=run.pk, on_progress=lambda progress: _cancel(run))
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert len(rows(run.target_id)) > 0
    purge_space(run_id=run.pk, space_id=run.target_id)
    assert not models.EmbeddingSpace.objects.filter(model=NEW).exists()
    with pytest.raises(ConflictError, match="over"):
        cancel_reindex(run=run)
    assert_complete(store, store.space_id)


def _cancel(run: models.ReindexRun) -> None:
    if models.ReindexRun.objects.filter(pk=run.pk, state="running").exists():
        cancel_reindex(run=run)


def test_a_swapped_move_is_rolled_back_before_it_is_cancelled() -> None:
    run = move(filled_store(20), is_forced=True)
    with pytest.raises(ConflictError, match="Roll it back first"):
        cancel_reindex(run=run)


def test_a_file_that_was_drafted_for_the_old_space_is_drafted_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = filled_store(20)
    run = move(store, is_forced=True, is_swapped=False)
    file = put(store, "A winch turns.\n", "w.txt")

    drafted = []

    def draft(**values: Any) -> int:
        drafted.append(values["file"].store.space_id)
        n_rows = stage_revision(**values)
        if len(drafted) == 1:
            force_swap(run=run)
        return n_rows

    monkeypatch.setattr("rag.services.ingest.indexing.stage_revision", draft)
    run_job(file)
    file.refresh_from_db()
    assert (file.status, file.error) == ("completed", None)
    assert drafted == [run.source_id, run.target_id]
    assert_complete(store, run.source_id, run.target_id)


def test_a_model_goes_with_vectors_only_and_with_all_files() -> None:
    store = filled_store(10)
    with pytest.raises(InvalidInputError, match="other vectors only"):
        start_reindex(scope=OPERATOR, store=store, what="parse", model=NEW)
    file = FileFactory(store=store)
    with pytest.raises(InvalidInputError, match="all its files"):
        start_reindex(scope=OPERATOR, store=store, what="embeddings", model=NEW, file_ids=[file.pk])
