"""A small store with golden questions, on the embedder of hashed words."""

from __future__ import annotations

from collections.abc import Sequence

from rag import models
from tests.factories import FileFactory, StoreFactory, publish

TEXTS = (
    "The warranty of the pump lasts two years.",
    "Seeds are kept in a dry and cool room.",
    "The nutrient solution is changed every week.",
    "Visitors sign the book at the front desk.",
    "The sensor is calibrated with two liquids.",
)


def golden_store(*texts: str) -> tuple[models.Store, list[models.Chunk]]:
    """Return a store with one file and a chunk for each text; none is a neighbour of another."""
    store = StoreFactory.create()
    file = FileFactory.create(store=store, name="guide.txt")
    return store, publish(file, *(texts or TEXTS), gap=20)


def golden(
    store: models.Store, query: str, chunks: Sequence[models.Chunk] = (), grade: int = 1
) -> models.GoldenQuestion:
    """Return a golden question that expects these chunks."""
    question = models.GoldenQuestion.objects.create(store=store, query=query)
    for chunk in chunks:
        models.GoldenTarget.objects.create(
            question=question, file=chunk.file, chunk=chunk, grade=grade
        )
    return question


def asked_store() -> models.Store:
    """Return a store with two golden questions that it can answer."""
    store, chunks = golden_store()
    golden(store, "warranty of the pump", [chunks[0]])
    golden(store, "seeds in a cool room", [chunks[1]])
    return store
