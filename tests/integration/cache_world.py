"""A store with rights in all forms, and every kind of change that a search may show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection

from rag import models
from rag.core.access import Scope
from rag.core.documents import Chunk
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.write.bulk_load import LoadRow, LoadTarget, load_chunks
from rag.services.files.delete import delete_files
from rag.services.files.edit import set_chunks_enabled, update_file
from rag.services.search import result_cache
from rag.services.search.retrieval import retrieve
from rag.services.stores.lifecycle import delete_store
from tests.factories import (
    FileFactory,
    GroupFactory,
    SpaceFactory,
    StoreFactory,
    UserFactory,
    publish,
)
from tests.fakes.words_embedder import WordsEmbedder

OPERATOR = Scope.operator()
QUERY = "pump manual"


@dataclass(slots=True)
class World:
    """A store that ``scope`` reads by a group; ``secret`` restricts the second file."""

    store: models.Store
    owner: User
    readers: Group
    editors: Group
    secret: Group
    open_file: models.File
    secret_file: models.File
    scope: Scope

    def find(self, query: str = QUERY, **values: Any) -> SearchResult:
        """Search as the reader would, through the cache."""
        values = {"scope": self.scope, "purpose": "answer"} | values
        return retrieve(query=query, stores=[self.fresh_store()], **values)

    def find_anew(self, query: str = QUERY, **values: Any) -> SearchResult:
        """Search as the reader would, without the cache."""
        values = {"scope": self.scope, "purpose": "evaluation"} | values
        return retrieve(query=query, stores=[self.fresh_store()], **values)

    def fresh_store(self) -> models.Store:
        """Return the store as it is now; what is gone as it was."""
        return models.Store.objects.filter(pk=self.store.pk).first() or self.store


def make_world() -> World:
    """Return a world in which the reader finds chunks of both files."""
    forget_cached()
    readers, editors, secret = (GroupFactory() for _ in range(3))
    owner = UserFactory()
    store = StoreFactory(owner=owner, readers=[readers], editors=[editors])
    open_file = FileFactory(store=store, name="a.txt")
    secret_file = FileFactory(store=store, name="b.txt", restricted=[secret])
    publish(open_file, "the pump manual", "the pump stops", "a blue valve")
    publish(secret_file, "the secret pump manual")
    scope = Scope(user_id=None, group_ids=frozenset({readers.pk, secret.pk}))
    return World(store, owner, readers, editors, secret, open_file, secret_file, scope)


def forget_cached() -> None:
    """Begin with empty caches and counters at nought."""
    result_cache._own.cache_clear()
    result_cache._server.cache_clear()


def is_cached(result: SearchResult) -> bool:
    """Return whether a result came from the cache."""
    return set(result.timings_ms) == {"cache", "total"}


def plain(result: SearchResult) -> SearchResult:
    """Return the result without its times, which never are the same."""
    return replace(result, timings_ms={}, metadata={**result.metadata, "timings_ms": {}})


def _update(**values: Any) -> Callable[[World], object]:
    return lambda w: models.Store.objects.filter(pk=w.store.pk).update(**values)


def _update_file(w: World, **values: Any) -> None:
    file = models.File.objects.get(pk=w.open_file.pk)
    facts: dict[str, Any] = {"name": file.name, "content_type": file.content_type, "metadata": {}}
    update_file(scope=OPERATOR, file=file, **(facts | values))


def _edit(w: World) -> None:
    models.Chunk.objects.filter(file=w.open_file, ordinal=0).update(text="an edited pump manual")


def _load(w: World) -> None:
    file = FileFactory(store=w.store, revision=1)
    text = "another pump manual"
    vector = WordsEmbedder(w.store.space.dim).embed_query(text)
    row = LoadRow(file.pk, Chunk(0, 0, len(text), 0, text, 3), "digest", text, vector)
    target = LoadTarget(w.store.pk, w.store.space_id, w.store.avg_len_frozen)
    load_chunks(target=target, rows=[row], processes=1)


def _swap_space(w: World) -> None:
    space = SpaceFactory(model="words:32", dim=32)
    embedder = WordsEmbedder(32)
    with connection.cursor() as cursor:
        for chunk in models.Chunk.objects.filter(store=w.store, is_live=True):
            cursor.execute(
                "INSERT INTO rag_chunk_vec (space_id, store_id, chunk_id, file_id, content_type,"
                " restricted, embedding) SELECT %s, store_id, chunk_id, file_id, content_type,"
                " restricted, %s::halfvec FROM rag_chunk_lex WHERE chunk_id = %s",
                [space.pk, str(embedder.embed_query(chunk.text).tolist()), chunk.pk],
            )
    models.Store.objects.filter(pk=w.store.pk).update(space=space)


def _first_chunk(w: World) -> int:
    return models.Chunk.objects.get(file=w.open_file, is_live=True, ordinal=0).pk


# What changes, and whether the reader's result becomes another by it.
CHANGES: dict[str, tuple[Callable[[World], object], bool]] = {
    "a revision is published": (lambda w: publish(w.open_file, "quite another pump"), True),
    "a file is published": (lambda w: publish(FileFactory(store=w.store), "pump manual two"), True),
    "many chunks are loaded": (_load, True),
    "a chunk is edited": (_edit, True),
    "a chunk is switched off": (
        lambda w: set_chunks_enabled(scope=OPERATOR, chunk_ids=[_first_chunk(w)], enabled=False),
        True,
    ),
    "a chunk is deleted": (
        lambda w: models.Chunk.objects.filter(pk=_first_chunk(w)).delete(),
        True,
    ),
    "a file is deleted": (
        lambda w: delete_files(scope=OPERATOR, file_ids=[w.open_file.pk]),
        True,
    ),
    "the store is deleted": (lambda w: delete_store(store=w.store), True),
    "statistics are rolled up": (lambda w: stats.recount_statistics(w.store.pk), False),
    "a file is restricted": (lambda w: w.open_file.restricted_to.add(w.editors), True),
    "a restriction is lifted": (lambda w: w.secret_file.restricted_to.clear(), False),
    "a restriction is moved": (lambda w: w.secret_file.restricted_to.set([w.editors]), True),
    "a file is renamed": (lambda w: _update_file(w, name="renamed.txt"), True),
    "a file's type is changed": (lambda w: _update_file(w, content_type="manual"), True),
    "a file's metadata are changed": (lambda w: _update_file(w, metadata={"lang": "en"}), True),
    "readers are removed": (lambda w: w.store.reader_groups.clear(), True),
    "the readers' group is deleted": (lambda w: w.readers.delete(), True),
    "readers become editors": (lambda w: w.store.editor_groups.add(w.readers), False),
    "the owner is changed": (_update(owner=None), False),
    "the owner is deleted": (lambda w: w.owner.delete(), False),
    "the store becomes public": (_update(is_public=True), False),
    "settings are changed": (_update(retrieval={"top_k": 1}), True),
    "the vocabulary is changed": (_update(vocabulary={"product": ["pump"]}), False),
    "the space is swapped": (_swap_space, True),
}
KEYWORD = RetrievalSettings(mode="keyword", top_k=5)
