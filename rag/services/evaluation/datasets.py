"""Evaluation on BEIR-like folders: index the corpus in a store of its own, search, and score.

Every question goes through the search that everybody uses; nothing is tuned for the occasion.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction

from rag import models
from rag.core.documents import Chunk, Page
from rag.core.errors import ConflictError, InvalidInputError, UnknownNameError
from rag.core.hits import Hit
from rag.core.ports import Embedder
from rag.evals.datasets import Dataset, read_dataset
from rag.evals.metrics import score_rankings
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.services.evaluation.runs import evaluation_search
from rag.services.index import build_pending_indexes
from rag.services.ingest import chunk_digest, indexed_text
from rag.services.stores import create_store, delete_store
from rag.services.wiring import registry as wiring
from rag.stages.text.terms import VERSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PARSER = "evaluation/1"
PAGE_BREAK = "\f"
BATCH = 64
MODES = {"vector": "semantic", "bm25": "keyword", "hybrid": "hybrid"}
TOP_K = 10
# Hears a stage, “embedding” or “searching”, how much more of it is done, and its total.
Progress = Callable[[str, int, int], None]


def _silent(stage: str, n: int, total: int) -> None: ...


def add_corpus_file(
    *, store: models.Store, documents: Mapping[str, str], metadata: Mapping[str, Any]
) -> models.File:
    """Return a new file whose n-th page is the n-th of ``documents``, labelled by its id."""
    text = PAGE_BREAK.join(documents.values())
    raw = text.encode()
    pages = [
        asdict(Page(number, key, start, end))
        for number, (key, (start, end)) in enumerate(
            zip(documents, _spans(documents), strict=True), 1
        )
    ]
    path = f"stores/{store.pk}/{uuid.uuid4().hex}"
    return models.File.objects.create(
        store=store,
        name="passages.txt",
        sha256=hashlib.sha256(raw).hexdigest(),
        content=default_storage.save(path, ContentFile(raw)),
        size=len(raw),
        kind="txt",
        encoding="utf-8",
        status=models.File.Status.COMPLETED,
        canonical_text=text,
        pages=pages,
        parser=PARSER,
        revision=1,
        n_chunks=len(documents),
        metadata=dict(metadata),
    )


def corpus_rows(
    *, file: models.File, documents: Mapping[str, str], vectors: Sequence[NDArray[np.float32]]
) -> Iterator[LoadRow]:
    """Yield the file's chunks, one per document."""
    count = wiring.embedder().tokenizer.count
    places = zip(documents.values(), _spans(documents), vectors, strict=True)
    for ordinal, (text, (start, end), vector) in enumerate(places):
        page = ordinal + 1
        chunk = Chunk(ordinal, start, end, start, text, count(text), page, page)
        yield LoadRow(file.pk, chunk, chunk_digest(chunk), indexed_text(chunk), vector)


def _spans(documents: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    start = 0
    for text in documents.values():
        yield start, start + len(text)
        start += len(text) + len(PAGE_BREAK)


def ensure_corpus_store(
    *,
    corpus: str,
    documents: Mapping[str, str],
    on_embedded: Callable[[int], None],
    space: models.EmbeddingSpace | None = None,
) -> models.Store:
    """Return the store “eval <corpus>” holding ``documents`` by the configured model and terms.

    With a ``space`` it stands there, as “eval <corpus> <model> <space>”. ``on_embedded`` hears
    how many more documents are embedded; never called when the store of an earlier run will do.
    Page n of its file is the n-th document. Raises ConflictError when a store of that name was made
    by somebody else.
    """
    if not documents:
        raise InvalidInputError("The corpus has no documents with text.")
    name = f"eval {corpus}" + (f" {space.model} {space.pk}" if space else "")
    embedder = wiring.embedder_of(space.pk) if space else wiring.embedder()
    fingerprint = _fingerprint(embedder, documents)
    old = models.Store.objects.filter(name=name).select_related("space").first()
    if old is not None and _is_current(old, fingerprint, len(documents)):
        return old
    vectors = _embed(embedder, list(documents.values()), on_embedded)
    with transaction.atomic():
        if old is not None:
            delete_store(store=old)
        store = create_store(name=name, space=space)
        metadata = {"fingerprint": fingerprint, "model": embedder.id}
        file = add_corpus_file(store=store, documents=documents, metadata=metadata)
        rows = corpus_rows(file=file, documents=documents, vectors=vectors)
        target = LoadTarget(store.pk, store.live_space_id)
        load_chunks(target=target, rows=rows)
    build_pending_indexes(space_id=store.live_space_id)
    return store


def _fingerprint(embedder: Embedder, documents: Mapping[str, str]) -> str:
    made_by = (PARSER, embedder.id, embedder.dim, embedder.version, VERSION)
    summed = hashlib.sha256(repr(made_by).encode())
    for key, text in documents.items():
        summed.update(f"{key}\0{text}\0".encode())
    return summed.hexdigest()


def _is_current(store: models.Store, fingerprint: str, n_documents: int) -> bool:
    files = list(store.files.values_list("parser", "metadata"))
    if not files or any(parser != PARSER for parser, _ in files):
        raise ConflictError(
            "The store “{name}” was not made by an evaluation.",
            hint="Rename it, or rename the data folder.",
            name=store.name,
        )
    # Somebody may have switched chunks off, edited or reindexed them.
    as_loaded = store.chunks.live().filter(enabled=True, revision=1, file_revision=1)
    is_same = files[0][1].get("fingerprint") == fingerprint
    return is_same and len(files) == 1 and as_loaded.count() == n_documents


def _embed(
    embedder: Embedder, texts: Sequence[str], on_embedded: Callable[[int], None]
) -> list[NDArray[np.float32]]:
    vectors: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        vectors.extend(embedder.embed_passages(batch))
        on_embedded(len(batch))
    return vectors


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Figures of one run, with all that they depend on; ``sql_ms`` is the median."""

    data: str
    mode: str
    model: str
    n_documents: int
    n_queries: int
    settings_hash: str
    sql_ms: float
    figures: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return a flat JSON-safe form."""
        return {
            "data": self.data,
            "mode": self.mode,
            "model": self.model,
            "documents": self.n_documents,
            "queries": self.n_queries,
            "settings": self.settings_hash,
            "sql_ms": round(self.sql_ms, 2),
            **self.figures,
        }


def evaluate_folder(
    *,
    data_dir: Path,
    mode: str = "hybrid",
    limit: int | None = None,
    query_dir: Path | None = None,
    on_progress: Progress = _silent,
) -> Evaluation:
    """Search with every judged query of a folder and return the figures.

    ``mode`` is vector, bm25 or hybrid; ``limit`` takes the first queries only; ``query_dir``
    takes the queries of another folder that shares the ids. The corpus is indexed when needed.
    """
    check_limit(limit=limit)
    dataset = read_dataset(data_dir, query_folder=query_dir)
    return evaluate_dataset(dataset=dataset.limited(limit), mode=mode, on_progress=on_progress)


def check_limit(*, limit: int | None) -> None:
    """Raise InvalidInputError for a number of questions that is none; None takes all."""
    if limit is not None and limit < 1:
        raise InvalidInputError("The limit is {limit}.", hint="Allowed: 1 or more.", limit=limit)


def rank_documents(ids: Sequence[str], judged: Mapping[str, int], hits: Sequence[Hit]) -> list[str]:
    """Return the document that each hit stands for: a judged one of its pages, or its first.

    Page n of the corpus is the n-th of ``ids``; a hit merged of neighbours has several pages.
    """
    rankings = []
    for hit in hits:
        if hit.page_first:
            pages = ids[hit.page_first - 1 : hit.page_last or hit.page_first]
            rankings.append(max(pages, key=lambda one: judged.get(one, 0)))
    return rankings


def evaluate_dataset(*, dataset: Dataset, mode: str, on_progress: Progress = _silent) -> Evaluation:
    """Search with every query of a dataset at hand and return the figures."""
    if mode not in MODES:
        raise UnknownNameError("evaluation mode", mode, MODES)
    store = ensure_corpus_store(
        corpus=dataset.corpus,
        documents=dataset.documents,
        on_embedded=lambda n: on_progress("embedding", n, len(dataset.documents)),
    )
    settings = store.retrieval_settings.but(mode=MODES[mode], top_k=TOP_K)
    ids = list(dataset.documents)
    rankings: dict[str, list[str]] = {}
    times: list[float] = []
    for key, query in dataset.queries.items():
        result = evaluation_search(query=query, store=store, settings=settings)
        rankings[key] = rank_documents(ids, dataset.judgements.get(key, {}), result.hits)
        times.append(result.timings_ms["sql"])
        on_progress("searching", 1, len(dataset.queries))
    assert store.space is not None, "the evaluation's own store is local"
    return Evaluation(
        data=dataset.name,
        mode=mode,
        model=store.space.model,
        n_documents=len(ids),
        n_queries=len(rankings),
        settings_hash=settings.hash,
        sql_ms=median(times),
        figures=score_rankings(dataset.judgements, rankings),
    )
