"""The store of a test corpus: made once, kept, made anew when anything behind it has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from django.db import transaction

from rag import models
from rag.core.errors import ConflictError, InvalidInputError
from rag.core.ports import Embedder
from rag.providers.postgres.load import LoadTarget, load_chunks
from rag.services import wiring
from rag.services.evaluation_file import PARSER, add_file, load_rows
from rag.services.spaces import build_due_indexes
from rag.services.stores import create_store, delete_store
from rag.stages.terms import VERSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 64


def ensure_store(
    *, corpus: str, documents: Mapping[str, str], on_embedded: Callable[[int], None],
    embedding_model: str = "",
) -> models.Store:  # fmt: skip
    """Return the store “eval <corpus>” holding ``documents`` by the configured model and terms.

    With an ``embedding_model`` it is that one's own, “eval <corpus> <model>”.

    ``on_embedded`` hears how many more documents are embedded; never called when the store of
    an earlier run will do. Page n of its file is the n-th document. Raises ConflictError when a
    store of that name was made by somebody else.
    """
    if not documents:
        raise InvalidInputError("The corpus has no documents with text.")
    name = f"eval {corpus} {embedding_model}".strip()[:200]
    embedder = wiring.embedder(embedding_model)
    fingerprint = _fingerprint(embedder, documents)
    old = models.Store.objects.filter(name=name).select_related("space").first()
    if old is not None and _is_current(old, fingerprint, len(documents)):
        return old
    vectors = _embed(embedder, list(documents.values()), on_embedded)
    with transaction.atomic():
        if old is not None:
            delete_store(store=old)
        store = create_store(name=name, embedding_model=embedding_model)
        metadata = {"fingerprint": fingerprint, "model": embedder.id}
        file = add_file(store=store, documents=documents, metadata=metadata)
        rows = load_rows(file=file, documents=documents, vectors=vectors)
        target = LoadTarget(store.pk, store.live_space_id)
        load_chunks(target=target, rows=rows)
    build_due_indexes(space_id=store.live_space_id)
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
            hint="Rename it, or rename the data folder.", name=store.name,
        )  # fmt: skip
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
