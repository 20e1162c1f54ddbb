"""Random people, groups, stores and files: what any read path returns, its reader may read."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from rag import models
from rag.core.access import Scope, may_read
from rag.core.errors import NotFoundError, RAGError
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services.access.api_keys import scope_of
from rag.services.answers.citations import pin_hits
from rag.services.answers.page_view import page_text
from rag.services.answers.question_answering import ask
from rag.services.answers.store_questions import answer_store_question
from rag.services.chunks.find import find_chunks
from rag.services.search.retrieval import retrieve
from rag.services.stores.lifecycle import readable_stores
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.index_hits import index_hits
from tests.integration.move_world import two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]
N_FILES, N_ROUNDS = 8, 3
QUERY = "common pump word"


class World:
    """Stores, files and people at random; each file has a word of its own."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.groups = [GroupFactory() for _ in range(3)]
        self.users = [UserFactory(groups=self.some()) for _ in range(3)]
        self.stores = [StoreFactory(owner=self.rng.choice([None, *self.users])) for _ in range(3)]
        self.files = []
        for number in range(N_FILES):
            file = FileFactory(store=self.rng.choice(self.stores), name=f"secret{number}x.txt")
            publish(file, f"The common pump has the word secret{number}x in it.")
            self.files.append(file)
        self.shuffle()

    def some(self) -> list[Group]:
        return self.rng.sample(self.groups, self.rng.randint(0, 2))

    def shuffle(self) -> None:
        """Give everybody other rights, by whatever way there is."""
        for store in self.stores:
            models.Store.objects.filter(pk=store.pk).update(is_public=self.rng.random() < 0.4)
            store.reader_groups.set(self.some())
            store.editor_groups.set(self.some() if self.rng.random() < 0.4 else [])
        for file in self.files:
            self.rng.choice(
                [file.restricted_to.set, lambda groups, f=file: f.restricted_to.add(*groups)]
            )(self.some())  # type: ignore[misc]
        for user in self.users:
            user.groups.set(self.some())

    def allowed(self, scope: Scope) -> set[str]:
        """Return the words that ``scope`` may read, by the rule alone."""
        facts = {store.pk: store.facts for store in models.Store.objects.all()}
        return {
            file.name.removesuffix(".txt")
            for file in self.files
            if may_read(
                scope,
                facts[file.store_id],
                frozenset(file.restricted_to.values_list("pk", flat=True)),
            )
        }

    def words_in(self, said: object) -> set[str]:
        text = repr(said)
        return {f"secret{n}x" for n in range(N_FILES) if f"secret{n}x" in text}


def paths(world: World, scope: Scope) -> dict[str, Callable[[], object]]:
    """Return each way to read, and what it says to ``scope``."""
    stores = list(models.Store.objects.all())
    every = RetrievalSettings(mode="hybrid", top_k=20)
    chunks = models.Chunk.objects.live()
    ids = list(chunks.values_list("pk", flat=True))
    pins = [Hit(text="", rank=1, chunk_id=pk, revision=1) for pk in ids]
    filtered = every.but(content_types=("document",))
    return {
        "search": lambda: index_hits(query=QUERY, scope=scope, stores=stores, settings=every).hits,
        "semantic": lambda: (
            index_hits(
                query=QUERY, scope=scope, stores=stores, settings=every.but(mode="semantic")
            ).hits
        ),
        "keyword": lambda: (
            index_hits(
                query=QUERY, scope=scope, stores=stores, settings=every.but(mode="keyword")
            ).hits
        ),
        "filtered": lambda: (
            index_hits(query=QUERY, scope=scope, stores=stores, settings=filtered).hits
        ),
        "cached": lambda: retrieve(query=QUERY, scope=scope, stores=stores, settings=every).hits,
        "retrieve": lambda: retrieve(query=QUERY, scope=scope, stores=stores, settings=every).hits,
        "ask": lambda: ask(question=QUERY, scope=scope, stores=stores, settings=every),
        "facts": lambda: answer_store_question(
            question="Which files are there?", scope=scope, stores=stores
        ),
        "find": lambda: list(
            find_chunks(chunks=chunks.readable(scope), scope=scope, words="common").values_list(
                "text", flat=True
            )
        ),
        "files": lambda: list(models.File.objects.readable(scope).values_list("name", flat=True)),
        "pinned": lambda: pin_hits(hits=pins, scope=scope),
        "stores": lambda: [store.slug for store in readable_stores(scope=scope)],
        "page": lambda: [_page(pk, scope) for pk in ids],
    }


def _page(chunk_id: int, scope: Scope) -> object:
    try:
        hit = Hit(text="", rank=1, chunk_id=chunk_id, revision=1)
        return page_text(hit=hit, quote="", scope=scope)
    except NotFoundError:
        return None


WHOLE = ("search", "semantic", "keyword", "filtered", "cached", "find", "files", "pinned", "page")


@pytest.mark.parametrize("seed", range(4))
def test_no_path_returns_what_its_reader_may_not_read(seed: int) -> None:
    world = World(seed)
    for _ in range(N_ROUNDS):
        people: list[User | None] = [None, *world.users]
        for person in people:
            scope = scope_of(person)
            allowed = world.allowed(scope)
            for name, read in paths(world, scope).items():
                try:
                    seen = world.words_in(read())
                except RAGError as error:
                    seen = world.words_in(error)
                assert seen <= allowed, (name, seen - allowed)
                if name in WHOLE:
                    assert seen == allowed, (name, allowed - seen)
        world.shuffle()


@pytest.mark.django_db(transaction=True)
def test_what_the_cache_keeps_for_one_reader_no_other_gets() -> None:
    world = World(99)
    kept: Any = None
    for _ in range(2):
        for person in world.users:
            scope = scope_of(person)
            kept = retrieve(
                query=QUERY, scope=scope, stores=world.stores, settings=RetrievalSettings(top_k=20)
            )
            assert world.words_in(kept.hits) == world.allowed(scope)
    assert kept.timings_ms.keys() == {"cache", "total"}
