"""A store that moves: hashed words of two sizes as models, real rows, searches that never stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connections

from rag import models
from rag.core.access import Scope
from rag.core.errors import ProviderError
from rag.core.types import RetrievalSettings
from rag.services.reindex.runs import ReindexOptions, start_reindex
from rag.services.reindex.worker import run_reindex
from tests.factories import FileFactory, StoreFactory, publish
from tests.fakes.model_plugins import use_provider
from tests.fakes.words_embedder import WordsEmbedder
from tests.index_hits import index_hits

OPERATOR = Scope.operator()
OLD, NEW = "words:64", "words:32"
TOPICS = ("pump", "valve", "motor", "sensor", "filter", "gasket", "bearing", "shaft")
QUERIES = tuple(f"{topic} {part}" for topic in TOPICS for part in ("pressure", "repair"))


class Failing(WordsEmbedder):
    """Hashed words that may be down: ``left`` batches work, then each call fails."""

    left: int | None = None

    def embed_passages(self, texts: Sequence[str]) -> Any:
        cls = type(self)
        if cls.left is not None and self.dim == 32:
            if cls.left <= 0:
                raise ProviderError("The model is down.")
            cls.left -= 1
        return super().embed_passages(texts)


def make(model: str) -> Failing:
    """Return the embedder of as many dimensions as its name says."""
    return Failing(int(model))


@pytest.fixture
def two_models(fresh_wiring: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``words:64``, which is the installation's, and ``words:32`` be models."""
    settings.RAG = settings.RAG | {"EMBEDDING_MODEL": OLD}
    use_provider(monkeypatch, "embedding", "words", make)
    monkeypatch.setattr(Failing, "left", None)


def texts(n: int, word: str = "") -> list[str]:
    """Return n texts of the topics, all different."""
    return [
        f"{TOPICS[i % len(TOPICS)]} number {i} {word} pressure {i * 7 % 31} repair part {i % 13}"
        for i in range(n)
    ]


def filled_store(n: int = 200, **values: Any) -> models.Store:
    """Return a store on ``words:64`` with n chunks in two files; none is a neighbour of another."""
    store = StoreFactory(**values)
    publish(FileFactory(store=store), *texts(n // 2), gap=20)
    publish(FileFactory(store=store), *texts(n - n // 2, "spare"), gap=20)
    return store


def golden(store: models.Store, n: int = 8) -> None:
    """Give the store questions whose answers are the first chunks."""
    for chunk in models.Chunk.objects.live().filter(store=store).order_by("pk")[:n]:
        question = models.GoldenQuestion.objects.create(store=store, query=chunk.text)
        question.targets.create(file_id=chunk.file_id, chunk=chunk)


def start_move(store: models.Store, *, model: str = NEW, **options: Any) -> models.ReindexRun:
    """Order a move to ``words:32``, or to another model."""
    run, _ = start_reindex(
        scope=OPERATOR,
        store=store,
        what="embeddings",
        model=model,
        options=ReindexOptions(**options),
    )
    return run


def move(store: models.Store, **options: Any) -> models.ReindexRun:
    """Move the store to ``words:32`` and return the run as it ended."""
    run = start_move(store, **options)
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    return run


def answers(store: models.Store) -> dict[str, tuple[Any, ...]]:
    """Return what each query finds by vectors and words, with its scores."""
    store.refresh_from_db()
    return {query: answer(store, query) for query in QUERIES}


def answer(store: models.Store, query: str) -> tuple[Any, ...]:
    """Return the hits of one query: (chunk, score to four places), best first."""
    found = index_hits(
        query=query,
        scope=OPERATOR,
        stores=[store],
        settings=RetrievalSettings(mode="hybrid", top_k=5),
    )
    return tuple((hit.chunk_id, round(hit.score, 4)) for hit in found.hits)


class Asking:
    """Searches again and again in a thread while a block runs; keeps what came and what failed."""

    def __init__(self, store: models.Store, allowed: Sequence[dict[str, tuple[Any, ...]]]) -> None:
        self._store, self.allowed = store, list(allowed)
        self.wrong: list[Any] = []
        self.failed: list[str] = []
        self.n = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(2)]

    def __enter__(self) -> Asking:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # At least a few after the last change.
        until = self.n + 8
        deadline = time.monotonic() + 5
        while self.n < until and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        try:
            while not self._stop.is_set():
                for query in QUERIES:
                    self._one(query)
        finally:
            connections.close_all()

    def _one(self, query: str) -> None:
        try:
            found = answer(models.Store.objects.get(pk=self._store.pk), query)
        except Exception as error:  # a test's edge: whatever a reader would have met
            self.failed.append(f"{type(error).__name__}: {error}")
            return
        self.n += 1
        if found not in [one[query] for one in self.allowed]:
            self.wrong.append((query, found))
