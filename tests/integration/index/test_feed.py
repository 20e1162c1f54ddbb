"""Feeding Milvus: once or twice, killed half-way, from scratch, while stores move and go away."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from rag import models, tasks
from rag.core.access import Scope
from rag.core.errors import ProviderError
from rag.models.outbox import WORDS
from rag.providers.milvus.collections import (
    count_chunks,
    drop_collection,
    fed_spaces,
    iterate_chunk_ids,
)
from rag.providers.milvus.server import MilvusServer
from rag.providers.postgres.outbox.rows import enable_outbox, enqueue_chunks, mark_fed, outbox_state
from rag.providers.postgres.vectors.spaces import drop_partition
from rag.services.files.edit import set_chunks_enabled
from rag.services.index import outbox
from rag.services.index.outbox import drain_outbox, flush_outbox, start_outbox, stop_outbox
from rag.services.index.vectors import pending_indexes
from rag.services.operations.check_result import CheckResult
from rag.services.operations.doctor import repair, run_checks
from rag.services.wiring import registry as search_providers
from tests.factories import FileFactory, StoreFactory, publish
from tests.integration.index_desk import ask
from tests.integration.milvus_world import milvus_file, server
from tests.integration.move_world import answers, filled_store, golden, move, two_models

__all__ = ["milvus_file", "server", "two_models"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def file(server: MilvusServer) -> models.File:
    # What tests before this one had fed; their rows were rolled back.
    for space_id in fed_spaces(server):
        drop_collection(server, space_id)
    file = FileFactory(store=StoreFactory())
    publish(file, "the pump stops", "the valve is blue", "水泵停了")
    return file


def held(server: MilvusServer, file: models.File) -> tuple[set[int], set[int]]:
    """Return the chunks whose vectors, and whose words, Milvus has."""
    spaces = (file.store.space_id, WORDS)
    return tuple(
        {one for some in iterate_chunk_ids(server, space) for one in some} for space in spaces
    )  # type: ignore[return-value]


def ids(file: models.File) -> set[int]:
    return set(models.Chunk.objects.live().filter(file=file).values_list("pk", flat=True))


def found(*only: str) -> list[CheckResult]:
    return [one for _, _, findings in run_checks(only=only) for one in findings]


def run(*options: str) -> str:
    out = io.StringIO()
    call_command("rag_feed", *options, stdout=out)
    return out.getvalue()


def test_who_dies_between_feeding_and_noting_it_is_made_up_for(
    server: MilvusServer, file: models.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(row_ids: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outbox, "mark_fed", killed)
    with pytest.raises(KeyboardInterrupt):
        drain_outbox()
    assert outbox_state().n_waiting == 6
    monkeypatch.setattr(outbox, "mark_fed", mark_fed)
    set_chunks_enabled(scope=Scope.operator(), chunk_ids=[min(ids(file))], enabled=False)
    assert drain_outbox() == 8
    assert drain_outbox() == 0
    assert held(server, file) == (ids(file) - {min(ids(file))},) * 2


def test_batches_go_on_until_the_time_is_up(
    server: MilvusServer, file: models.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "BATCH", 4)
    sizes: list[int] = []
    assert drain_outbox(budget_s=0, on_batch=sizes.append) == 0
    assert drain_outbox(on_batch=sizes.append) == 6
    assert sizes == [4, 2]


def test_a_milvus_that_fails_leaves_what_waits(
    server: MilvusServer, file: models.File, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    down = {"MILVUS_URI": "http://127.0.0.1:1", "MILVUS_TOKEN": "geheimnis"}
    settings.RAG = settings.RAG | down
    with pytest.raises(ProviderError):
        drain_outbox()
    with pytest.MonkeyPatch.context() as patch:
        # It would take the test's transaction with it.
        patch.setattr(tasks.connections, "close_all", lambda: None)
        tasks._drain_outbox_task(timestamp=0)
    assert "Milvus was not fed: The connection to Milvus at 127.0.0.1:1 failed" in caplog.text
    assert "geheimnis" not in caplog.text
    assert outbox_state().n_waiting == 6
    with pytest.raises(CommandError, match="connection to Milvus"):
        run()


def test_feeding_everything_also_removes_what_is_gone(
    server: MilvusServer, file: models.File
) -> None:
    drain_outbox()
    enable_outbox(False)
    gone = ids(file)
    publish(file, "the motor runs")
    assert held(server, file) == (gone, gone)
    # Off, so that all is noted: one vector and one chunk's words, and the three of both that went.
    assert start_outbox() == 2 + 6
    assert start_outbox() == 0
    drain_outbox()
    assert held(server, file) == (ids(file), ids(file))


def test_the_command_starts_feeds_and_stops(server: MilvusServer, file: models.File) -> None:
    enable_outbox(False)
    assert run() == "0 changes wait, the oldest for 0 s.\n"
    assert held(server, file) == (ids(file), ids(file))
    models.OutboxRow.objects.all().delete()
    assert run("--all", "--no-wait").startswith("6 changes wait")
    assert run("--stop") == "Stopped; 6 changes were not fed.\n"
    assert (outbox_state().is_on, outbox_state().n_waiting) == (False, 0)


def test_a_space_that_is_given_up_takes_its_collection_along(
    server: MilvusServer, file: models.File
) -> None:
    drain_outbox()
    space = file.store.space_id
    assert space in fed_spaces(server)
    file.store.delete()
    drop_partition(space)
    models.EmbeddingSpace.objects.filter(pk=space).delete()
    # Changes of a space that is gone wait for nobody.
    assert drain_outbox() == 6
    assert fed_spaces(server) == {WORDS}
    assert count_chunks(server, WORDS) == 0


def test_the_doctor_finds_and_mends(server: MilvusServer, file: models.File, settings: Any) -> None:
    drain_outbox()
    assert found("outbox", "milvus") == []
    enable_outbox(False)
    publish(file, "the motor runs")
    (off,) = found("outbox", "milvus")
    assert off.level == "error" and repair(finding=off).todo == "noted 8 changes; workers feed them"
    drain_outbox()
    assert found("outbox", "milvus") == []
    drop_collection(server, WORDS)
    (lacking,) = found("milvus")
    assert lacking.facts == {"space": WORDS, "there": 0, "here": 1}
    assert repair(finding=lacking).level == "fixed"
    drain_outbox()
    assert found("milvus") == []
    enqueue_chunks(WORDS, list(ids(file)))
    ask("UPDATE rag_outbox SET at = at - interval '400 s' RETURNING id")
    (late,) = found("outbox")
    assert late.level == "warning" and late.what.startswith("1 changes wait for Milvus, the oldest")
    settings.RAG = settings.RAG | {"SEARCH_PROVIDER": "postgres"}
    (unasked,) = found("outbox", "milvus")
    assert "which nobody asks" in unasked.what
    assert repair(finding=unasked).level == "fixed"
    assert found("outbox", "milvus") == []


def test_readiness_tells_the_lag(server: MilvusServer, file: models.File, settings: Any) -> None:
    told = Client().get("/readyz").json()["checks"]["milvus"]
    assert told["ok"] and told["waiting"] == 6
    enable_outbox(False)
    assert not Client().get("/readyz").json()["checks"]["milvus"]["ok"]
    settings.RAG = settings.RAG | {"SEARCH_PROVIDER": "postgres"}
    assert "milvus" not in Client().get("/readyz").json()["checks"]


@pytest.mark.usefixtures("two_models")
def test_a_store_moves_only_when_milvus_has_the_new_space(
    server: MilvusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled_store(80)
    golden(store)
    before = answers(store)
    waited: list[int] = []

    def watched() -> None:
        flush_outbox()
        waited.append(outbox_state().n_waiting)
        models.OutboxRow.objects.all().delete()

    monkeypatch.setattr("rag.services.reindex.move.flush_outbox", watched)
    monkeypatch.setattr("rag.services.reindex.move.flush_outbox", watched)
    assert search_providers.is_milvus()
    moved = move(store, is_forced=True)
    assert (moved.state, waited) == ("swapped", [0, 0])
    assert moved.target is not None
    assert count_chunks(server, moved.target_id or 0) == 80
    after = answers(store)
    assert after != before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag.services.wiring.registry.index", search_providers.PostgresIndex)
        assert answers(store) == after


def test_no_graph_is_built_beside_milvus(server: MilvusServer, settings: Any) -> None:
    settings.RAG = settings.RAG | {"HNSW_MIN_CHUNKS": 1}
    file = FileFactory(store=StoreFactory())
    publish(file, "one", "two")
    assert pending_indexes(space_id=file.store.space_id) == []
    settings.RAG = settings.RAG | {"SEARCH_PROVIDER": "postgres"}
    assert pending_indexes(space_id=file.store.space_id) == [None]


def test_stopping_asks_no_milvus(server: MilvusServer, file: models.File, settings: Any) -> None:
    settings.RAG = settings.RAG | {"MILVUS_URI": "", "SEARCH_PROVIDER": "postgres"}
    assert stop_outbox() == 6
    flush_outbox()
    assert not outbox_state().is_on
