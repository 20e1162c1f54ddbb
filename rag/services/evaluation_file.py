"""A test corpus as one file of a store: each passage a page and a chunk of its own.

So a hit's page tells its document.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from rag import models
from rag.core.documents import Chunk, Page
from rag.providers.postgres.load import LoadRow
from rag.services import wiring
from rag.services.draft import digest, indexed_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PARSER = "evaluation/1"
PAGE_BREAK = "\f"


def add_file(
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
        store=store, name="passages.txt", sha256=hashlib.sha256(raw).hexdigest(),
        content=default_storage.save(path, ContentFile(raw)), size=len(raw), kind="txt",
        encoding="utf-8", status=models.File.Status.COMPLETED, canonical_text=text, pages=pages,
        parser=PARSER, revision=1, n_chunks=len(documents), metadata=dict(metadata),
    )  # fmt: skip


def load_rows(
    *, file: models.File, documents: Mapping[str, str], vectors: Sequence[NDArray[np.float32]]
) -> Iterator[LoadRow]:
    """Yield the file's chunks, one per document."""
    count = wiring.embedder().tokenizer.count
    places = zip(documents.values(), _spans(documents), vectors, strict=True)
    for ordinal, (text, (start, end), vector) in enumerate(places):
        page = ordinal + 1
        chunk = Chunk(ordinal, start, end, start, text, count(text), page, page)
        yield LoadRow(file.pk, chunk, digest(chunk), indexed_text(chunk), vector)


def _spans(documents: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    start = 0
    for text in documents.values():
        yield start, start + len(text)
        start += len(text) + len(PAGE_BREAK)
