"""Files brought in by the real job: hashed words as a model, the real parser, the real queue."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from django.db import connection
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.services.files.upload import upload_file
from rag.services.ingest.inline_worker import run_until_indexed
from rag.services.wiring import registry as wiring
from tests.fakes.words_embedder import WordsEmbedder


class WatchedEmbedder(WordsEmbedder):
    """Remembers what it embeds; ``before`` is called with the number of each batch, from 1."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.texts: list[str] = []
        self.n_batches = 0
        self.before: Callable[[int], None] = lambda n: None

    def embed_passages(self, texts: Sequence[str]) -> Any:
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        self.n_batches += 1
        self.before(self.n_batches)
        self.texts += texts
        return super().embed_passages(texts)

    def forget(self) -> None:
        """Begin to count anew."""
        self.texts, self.n_batches, self.before = [], 0, lambda n: None


def watch(store: models.Store, monkeypatch: Any) -> WatchedEmbedder:
    """Let the store's space be embedded by one that is returned."""
    made = WatchedEmbedder(store.space.dim)
    monkeypatch.setattr(wiring, "embedder_of", lambda space_id: made)
    return made


def put(store: models.Store, content: bytes | str, name: str = "a.txt") -> models.File:
    """Take a file in; its job waits."""
    raw = content.encode() if isinstance(content, str) else content
    return upload_file(store=store, name=name, content=io.BytesIO(raw)).file


def work(*files: models.File) -> list[models.File]:
    """Let a real worker do what waits; return the files as they are then."""
    run_until_indexed(file_ids=[file.pk for file in files], on_progress=lambda progress: None)
    return [models.File.objects.get(pk=file.pk) for file in files]


def forget_jobs() -> None:
    """Empty the queue."""
    ProcrastinateJob.objects.all()._raw_delete("default")


def run_job(file: models.File, **flags: Any) -> models.File | None:
    """Do the file's job here and now, as the task does; return the row if there is one."""
    from rag.services.ingest.indexing import index_file

    forget_jobs()
    index_file(file_id=file.pk, **flags)
    return models.File.objects.filter(pk=file.pk).first()


def live(file: models.File) -> list[models.Chunk]:
    """Return the file's live chunks in order."""
    return list(models.Chunk.objects.filter(file=file, is_live=True).order_by("ordinal"))


def ask(query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


def vectors(file: models.File) -> dict[int, str]:
    """Return the file's vectors by chunk."""
    return dict(
        ask("SELECT chunk_id, embedding::text FROM rag_chunk_vec WHERE file_id = %s", file.pk)
    )  # type: ignore[arg-type]


def assert_whole(*stores: models.Store) -> None:
    """Every live chunk is in both indexes and nothing else is; spans and statistics are exact."""
    unpaired = ask(
        "SELECT c.id, v.chunk_id, l.chunk_id FROM (SELECT id FROM rag_chunk WHERE is_live) c"
        " FULL JOIN rag_chunk_vec v ON v.chunk_id = c.id"
        " FULL JOIN rag_chunk_lex l ON l.chunk_id = coalesce(c.id, v.chunk_id)"
        " WHERE c.id IS NULL OR v.chunk_id IS NULL OR l.chunk_id IS NULL"
    )
    assert unpaired == []
    for file in models.File.objects.filter(store__in=stores):
        chunks = live(file)
        assert [chunk.ordinal for chunk in chunks] == list(range(file.n_chunks))
        for chunk in chunks:
            assert file.canonical_text[chunk.char_start : chunk.char_end] == chunk.text
    for store in stores:
        store.refresh_from_db()
        said = (store.n_chunks, store.sum_len, _frequencies(store))
        counted = ask(
            "SELECT count(*), coalesce(sum(len), 0) FROM rag_chunk_lex WHERE store_id = %s",
            store.pk,
        )[0]
        truth = ask(
            "SELECT key, count(*) FROM rag_chunk_lex, unnest(rag_terms(w)) key"
            " WHERE store_id = %s GROUP BY key ORDER BY key",
            store.pk,
        )
        assert said == (*counted, truth)


def _frequencies(store: models.Store) -> list[tuple[Any, ...]]:
    return ask(
        "SELECT key, df FROM rag_term_df WHERE store_id = %s AND df <> 0 ORDER BY key", store.pk
    )
