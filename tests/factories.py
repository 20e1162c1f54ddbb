"""Rows for tests: users with rights, stores on a space of their own, files, chunks in the index."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from typing import Any

import factory
from django.contrib.auth.models import Group, Permission, User
from django.core.files.base import ContentFile
from django.db import transaction
from factory.django import DjangoModelFactory

from rag import models
from rag.core.documents import Chunk
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.bm25 import bm25_weights
from rag.providers.postgres.vectors.spaces import create_partition
from rag.providers.postgres.write import staging as drafts
from rag.providers.postgres.write.swap import SwapTarget, swap_revision
from rag.stages.text.terms import index_terms, is_han
from tests.fakes.words_embedder import WordsEmbedder

DIM = 64
EDITOR = (
    "view_store",
    "add_store",
    "change_store",
    "delete_store",
    "view_file",
    "add_file",
    "change_file",
    "delete_file",
    "view_chunk",
    "change_chunk",
    "view_chunkrevision",
    "view_querylog",
    "view_embeddingspace",
    "view_procrastinatejob",
)


class GroupFactory(DjangoModelFactory[Group]):
    """A group."""

    class Meta:
        model = Group

    name = factory.Sequence(lambda n: f"group {n}")


class UserFactory(DjangoModelFactory[User]):
    """A person who may sign in to the admin; ``permissions`` names codenames, ``groups`` groups."""

    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda n: f"user{n}")
    is_staff = True

    @factory.post_generation
    def permissions(self, create: bool, extracted: Sequence[str] | None, **_: Any) -> None:
        for codename in extracted or ():
            self.user_permissions.add(Permission.objects.get(codename=codename))  # type: ignore[attr-defined]

    @factory.post_generation
    def groups(self, create: bool, extracted: Sequence[Group] | None, **_: Any) -> None:
        self.groups.add(*(extracted or ()))  # type: ignore[attr-defined]


class SpaceFactory(DjangoModelFactory[models.EmbeddingSpace]):
    """The space of the hashed words, with its partition."""

    class Meta:
        model = models.EmbeddingSpace
        django_get_or_create = ("model", "dim", "version")

    model = f"words:{DIM}"
    dim = DIM
    version = "1"

    @classmethod
    def _create(cls, model_class: Any, *args: Any, **kwargs: Any) -> Any:
        space = super()._create(model_class, *args, **kwargs)
        create_partition(space.pk, space.dim)
        return space


class StoreFactory(DjangoModelFactory[models.Store]):
    """A store; ``readers`` and ``editors`` are groups."""

    class Meta:
        model = models.Store
        skip_postgeneration_save = True

    name = factory.Sequence(lambda n: f"store {n}")
    slug = factory.Sequence(lambda n: f"store-{n}")
    space = factory.SubFactory(SpaceFactory)

    @factory.post_generation
    def readers(self, create: bool, extracted: Sequence[Group] | None, **_: Any) -> None:
        self.reader_groups.add(*(extracted or ()))  # type: ignore[attr-defined]

    @factory.post_generation
    def editors(self, create: bool, extracted: Sequence[Group] | None, **_: Any) -> None:
        self.editor_groups.add(*(extracted or ()))  # type: ignore[attr-defined]


class FileFactory(DjangoModelFactory[models.File]):
    """A completed text file with its bytes; ``restricted`` names groups."""

    class Meta:
        model = models.File
        skip_postgeneration_save = True

    store = factory.SubFactory(StoreFactory)
    name = factory.Sequence(lambda n: f"file {n}.txt")
    sha256 = factory.LazyAttribute(lambda o: hashlib.sha256(o.name.encode()).hexdigest())
    kind = "txt"
    size = 12
    status = models.File.Status.COMPLETED
    content = factory.LazyAttribute(lambda o: ContentFile(b"the original", name=o.sha256))

    @factory.post_generation
    def restricted(self, create: bool, extracted: Sequence[Group] | None, **_: Any) -> None:
        self.restricted_to.add(*(extracted or ()))  # type: ignore[attr-defined]


class ChunkFactory(DjangoModelFactory[models.Chunk]):
    """A chunk's row; only ``publish`` puts chunks into the index."""

    class Meta:
        model = models.Chunk

    file = factory.SubFactory(FileFactory)
    store = factory.SelfAttribute("file.store")
    ordinal = factory.Sequence(lambda n: n)
    text = factory.Sequence(lambda n: f"text of chunk {n}")
    char_start = own_start = 0
    char_end = factory.LazyAttribute(lambda o: len(o.text))
    token_count = 5
    sha256 = factory.LazyAttribute(lambda o: hashlib.sha256(o.text.encode()).hexdigest())


class QueryLogFactory(DjangoModelFactory[models.QueryLog]):
    """A search that found one chunk."""

    class Meta:
        model = models.QueryLog

    query = factory.Sequence(lambda n: f"question {n}")
    store_ids = factory.List([])
    settings_hash = "0" * 16
    mode = "hybrid"
    top_k = 5
    chunk_ids = factory.List([1])


def publish(file: models.File, *texts: str, gap: int = 1) -> list[models.Chunk]:
    """Make the texts, one a page, the file's live revision; return its chunks in order.

    ``gap`` characters lie between them; hits that stand so far apart are not merged from 17 on.
    """
    embedder = WordsEmbedder(file.store.space.dim)
    rows, pages, position = [], [], 0
    for ordinal, text in enumerate(texts):
        end = position + len(text)
        number = ordinal + 1
        chunk = Chunk(
            ordinal, position, end, position, text, embedder.tokenizer.count(text), number, number
        )
        counts = index_terms(text)
        weights = bm25_weights(file.store_id, counts, file.store.avg_len_frozen)
        digest = hashlib.sha256(text.encode()).hexdigest()
        vector = embedder.embed_query(text)
        rows.append(drafts.StagedRow(chunk, digest, is_han(text), counts.total(), weights, vector))
        pages.append(
            {"number": number, "label": "", "start": position, "end": end, "has_text_layer": True}
        )
        position = end + gap
    drafts.begin_staging(file.pk, "test")
    drafts.stage_rows(file.pk, "test", rows)
    with transaction.atomic():
        file.revision += 1
        target = SwapTarget(
            file.pk, file.store_id, file.store.space_id, file.revision, file.content_type
        )
        file.n_chunks = swap_revision(target)
        file.canonical_text, file.pages = f"\f{' ' * (gap - 1)}".join(texts), pages
        file.save()
    stats.roll_up([file.store_id])
    file.store.refresh_from_db()
    return list(models.Chunk.objects.filter(file=file, is_live=True).order_by("ordinal"))


def upload(name: str, content: bytes) -> io.BytesIO:
    """Return what a test client posts as a file."""
    stream = io.BytesIO(content)
    stream.name = name
    return stream
