"""What is deleted is gone: from searches, caches, kept answers, the queue, exports and the log."""

from __future__ import annotations

import gzip
import logging
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.hits import Hit
from rag.core.types import SearchResult
from rag.providers.postgres.write.purge import merge_pending_hits, purge_chunk_traces
from rag.services.answers.question_answering import ask as ask_question
from rag.services.chunks.add import delete_chunks
from rag.services.chunks.edit import edit_chunk
from rag.services.files.delete import delete_files
from rag.services.files.requeue import requeue_files
from rag.services.operations.recovery import purge_old_queries
from rag.services.search.query_log import log_query
from rag.services.search.retrieval import retrieve
from rag.services.stores.dump import dump_store
from rag.services.stores.lifecycle import delete_store
from tests.factories import ChunkFactory, FileFactory, QueryLogFactory, publish
from tests.integration.index_desk import ask, put, run_job
from tests.integration.move_world import OPERATOR, filled_store, move, texts, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]
SECRET = "xylophone"
QUESTION = "What does the xylophone cost?"


def secret_file(store: models.Store) -> models.File:
    file = run_job(put(store, f"The {SECRET} costs 4711 crowns.\n", "price.txt"))
    assert file is not None and file.status == "completed"
    return file


def where_it_stands() -> list[str]:
    """Return each table of ours of which some row says the secret, in any column."""
    names = [
        name
        for (name,) in ask(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(rag|agents|procrastinate)_'"
        )
    ]
    return [
        name
        for name in names
        if ask(f"SELECT count(*) FROM {name} t WHERE t::text ILIKE %s", f"%{SECRET}%")[0][0]
    ]


def test_nothing_gives_a_deleted_file_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: Any
) -> None:
    caplog.set_level(logging.INFO)
    store = filled_store(20)
    file = secret_file(store)
    chunk = file.chunks.get()
    edit_chunk(
        scope=OPERATOR,
        chunk_id=chunk.pk,
        text=f"The {SECRET} costs 815 crowns.",
        by=None,
        expected_revision=1,
    )
    move(store, is_forced=True)
    store.refresh_from_db()
    for _ in range(2):
        assert retrieve(query=SECRET, scope=OPERATOR, stores=[store]).hits[0].file_id == file.pk
    assert SECRET in ask_question(question=QUESTION, scope=OPERATOR, stores=[store]).text
    stored = str(file.content.name)
    requeue_files(store=store, file_ids=[file.pk])
    with django_capture_on_commit_callbacks(execute=True):
        assert delete_files(scope=OPERATOR, file_ids=[file.pk]) == 1
    assert not default_storage.exists(stored)
    asked = {"rag_querylog"}
    assert set(where_it_stands()) <= asked
    kept = models.QueryLog.objects.filter(query=QUESTION).get()
    assert (kept.answer, kept.citations) == ("", [])
    assert not ProcrastinateJob.objects.filter(lock=f"file:{file.pk}", status="todo").exists()
    assert ask("SELECT count(*) FROM rag_chunk_vec WHERE file_id = %s", file.pk) == [(0,)]
    for found in (
        retrieve(query=SECRET, scope=OPERATOR, stores=[store]).hits,
        retrieve(query=QUESTION, scope=OPERATOR, stores=[store]).hits,
    ):
        assert all(SECRET not in hit.text for hit in found)
    assert (
        SECRET
        not in ask_question(
            question="What does it cost in crowns?", scope=OPERATOR, stores=[store]
        ).text
    )
    dump_store(store=store, path=tmp_path / "dump", has_vectors=True)
    assert SECRET.encode() not in gzip.decompress((tmp_path / "dump").read_bytes())
    assert SECRET not in caplog.text


def test_a_deleted_chunk_is_forgotten_with_its_revisions_and_answers() -> None:
    store = filled_store(10)
    file = secret_file(store)
    chunk = file.chunks.get()
    ask_question(question=QUESTION, scope=OPERATOR, stores=[store])
    delete_chunks(scope=OPERATOR, chunk_ids=[chunk.pk], by=None)
    assert models.QueryLog.objects.get(query=QUESTION).answer == ""
    # The file says it still, and is read by those who may open it.
    assert set(where_it_stands()) == {"rag_file", "rag_querylog"}


def test_an_answer_goes_with_any_chunk_of_a_merged_passage() -> None:
    file = FileFactory(store=filled_store(10), n_chunks=2)
    chunks = [ChunkFactory(file=file), ChunkFactory(file=file)]
    parts = [
        {"chunk_id": one.pk, "revision": 1, "char_start": 0, "char_end": one.char_end}
        for one in chunks
    ]
    hit = Hit(text="both", rank=1, chunk_id=chunks[1].pk, revision=1, data={"chunks": parts})
    found = SearchResult(
        query=QUESTION,
        hits=(hit,),
        mode="hybrid",
        top_k=1,
        settings_hash="",
        routes={},
        timings_ms={},
    )
    for chunk in chunks:
        line = log_query(result=found, scope=OPERATOR, answer=f"A {SECRET}.")
        assert models.QueryLog.objects.get(pk=line).chunk_ids == [chunks[1].pk, chunks[0].pk]
        delete_chunks(scope=OPERATOR, chunk_ids=[chunk.pk], by=None)
        assert models.QueryLog.objects.get(pk=line).answer == ""


def test_a_deleted_store_takes_its_answers_along() -> None:
    store, other = filled_store(10), filled_store(10)
    secret_file(store)
    ask_question(question=QUESTION, scope=OPERATOR, stores=[store])
    ask_question(question="pump pressure", scope=OPERATOR, stores=[other])
    delete_store(store=store)
    assert models.QueryLog.objects.get(query=QUESTION).answer == ""
    assert models.QueryLog.objects.get(query="pump pressure").answer != ""
    assert set(where_it_stands()) == {"rag_querylog"}


def test_a_file_of_a_thousand_chunks_is_deleted_in_200_ms() -> None:
    store = filled_store(20)
    times = []
    for number in range(3):
        file = FileFactory(store=store)
        publish(file, *texts(1000, f"word{number}"))
        began = time.perf_counter()
        delete_files(scope=OPERATOR, file_ids=[file.pk])
        times.append(time.perf_counter() - began)
    assert min(times) < 0.2, times


def test_old_queries_go_when_a_limit_is_set(settings: Any) -> None:
    old, new = QueryLogFactory(), QueryLogFactory()
    models.QueryLog.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=31))
    assert purge_old_queries() == 0
    settings.RAG = settings.RAG | {"QUERY_LOG_DAYS": 30}
    assert purge_old_queries() == 1
    assert models.QueryLog.objects.get() == new


def test_kept_answers_are_found_by_their_index_and_those_of_others_stay() -> None:
    store = filled_store(4)
    file = secret_file(store)
    (chunk_id,) = file.chunks.live().values_list("pk", flat=True)
    ours = QueryLogFactory(store_ids=[store.pk], chunk_ids=[chunk_id, 1], answer=SECRET)
    other = QueryLogFactory(store_ids=[store.pk], chunk_ids=[chunk_id + 1000], answer="kept")
    merge_pending_hits()
    said: list[str] = []

    def listen(execute: Any, sql: Any, *rest: Any) -> Any:
        if "UPDATE rag_querylog" in str(sql):
            ((way,),) = ask("SHOW enable_seqscan")
            said.append(way)
        return execute(sql, *rest)

    with connection.execute_wrapper(listen):
        purge_chunk_traces([chunk_id])
    assert said == ["off"]
    assert ask("SHOW enable_seqscan") == [("on",)]
    ours.refresh_from_db()
    other.refresh_from_db()
    assert (ours.answer, other.answer) == ("", "kept")


@pytest.mark.parametrize("is_whole", [False, True])
def test_files_whose_bytes_never_came_can_be_deleted(
    is_whole: bool, django_capture_on_commit_callbacks: Any
) -> None:
    file = FileFactory(store=filled_store(2), content="")
    with django_capture_on_commit_callbacks(execute=True):
        if is_whole:
            delete_store(store=file.store)
        else:
            delete_files(scope=OPERATOR, file_ids=[file.pk])
    assert not models.File.objects.filter(pk=file.pk).exists()
