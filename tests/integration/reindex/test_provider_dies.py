"""A model's server that dies in the middle: real HTTP, real refusals, and a run that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag import models
from rag.core.errors import RAGError
from rag.providers.openai_compatible.embedder import EmbedderOptions, OpenAICompatibleEmbedder
from rag.providers.remote.batches import BatchLimits
from rag.providers.remote.retry import RetryPolicy
from rag.services.ingest.indexing import index_file
from rag.services.reindex.move import force_swap
from rag.services.reindex.worker import resume_reindex, run_reindex
from tests.fakes.loopback import Call, Fault, LoopbackServer, Reply, _Handler, _Server
from tests.fakes.model_plugins import use_provider
from tests.fakes.openai_server import OpenAIServer
from tests.integration.index_desk import ask, live, put, run_job
from tests.integration.move_world import Asking, answers, filled_store, start_move, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("two_models")]
FAST = RetryPolicy(max_attempts=2, first_wait_s=0.005, max_wait_s=0.01, deadline_s=5.0)
SERVED = "openai_compatible:bge"


class MortalServer(OpenAIServer):
    """Dies after ``n_left`` calls, with all its connections, and comes back at the same port."""

    address = ""

    def __init__(self) -> None:
        super().__init__()
        self.n_left: int | None = None
        type(self).address = self.url

    def answer(self, call: Call) -> Reply:
        if self.n_left is not None:
            self.n_left -= 1
            if self.n_left < 0:
                self.die()
                return Reply(events=["cut"])
        return super().answer(call)

    def die(self) -> None:
        self.fail(Fault(cut="before", times=10**6))
        self._port = self._http.server_port
        self._http.socket.close()

    def revive(self) -> None:
        self.n_left = None
        self.faults.clear()
        self._http.shutdown()
        self._http = _Server(("127.0.0.1", self._port), _Handler)
        self._http.owner = self
        LoopbackServer.__enter__(self)


def make(model: str) -> OpenAICompatibleEmbedder:
    options = EmbedderOptions(retry=FAST, timeout_s=2.0, limits=BatchLimits(max_texts=16))
    return OpenAICompatibleEmbedder(model, MortalServer.address, "", 16, options=options)


@pytest.fixture
def server(two_models: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[MortalServer]:
    use_provider(monkeypatch, "embedding", "openai_compatible", make)
    with MortalServer() as made:
        yield made


def said(error: Any) -> str:
    return str(RAGError.from_dict(error or {}))


def n_filled(run: models.ReindexRun) -> int:
    return int(ask(f"SELECT count(*) FROM rag_chunk_vec_s{run.target_id}")[0][0])


def test_a_move_whose_server_dies_keeps_what_it_has_and_goes_on(server: MortalServer) -> None:
    store = filled_store(120)
    before = answers(store)
    run = start_move(store, is_forced=True, is_swapped=False, model=SERVED)
    server.n_left = 6
    with Asking(store, [before]) as asking:
        run_reindex(run_id=run.pk)
        run.refresh_from_db()
        assert run.state == "failed"
        assert "127.0.0.1" in said(run.error) and "{" not in said(run.error)
        kept = n_filled(run)
        assert 0 < kept < 120
        server.revive()
        run_reindex(run_id=resume_reindex(run=run).pk)
    run.refresh_from_db()
    assert (run.state, n_filled(run)) == ("ready", 120)
    assert (asking.failed, asking.wrong) == ([], [])
    n_texts = sum(len(call.json["input"]) for call in server.calls if call.body)
    assert n_texts < 2 * 120, "what was embedded is not embedded again"


def test_a_reindex_in_place_leaves_the_vectors_that_serve(server: MortalServer) -> None:
    store = filled_store(60)
    force_swap(run=moved(store))
    store.refresh_from_db()
    before = answers(store)
    server.die()
    with pytest.raises(CommandError, match=r"127\.0\.0\.1"):
        call_command("rag_reindex", "--store", store.slug, "--what", "embeddings")
    server.revive()
    assert answers(store) == before
    call_command("rag_reindex", "--store", store.slug, "--resume")
    assert answers(store) == before


def test_a_file_that_comes_in_meanwhile_is_in_error_and_is_taken_later(
    server: MortalServer,
) -> None:
    store = filled_store(20)
    force_swap(run=moved(store))
    store.refresh_from_db()
    file = put(store, "The pump is serviced every 30 days.")
    server.die()
    index_file(file_id=file.pk)
    file.refresh_from_db()
    assert (file.status, live(file)) == ("error", [])
    assert "127.0.0.1" in said(file.error)
    server.revive()
    done = run_job(file)
    assert done is not None and (done.status, len(live(done))) == ("completed", 1)


def moved(store: models.Store) -> models.ReindexRun:
    run = start_move(store, is_forced=True, is_swapped=False, model=SERVED)
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "ready", said(run.error)
    return run
