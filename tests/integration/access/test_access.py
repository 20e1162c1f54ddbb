"""The access rule in SQL is the rule of rag.core.access, for random users, groups and files."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from django.contrib.auth.models import Group, User

from rag import models
from rag.core.access import Scope, may_edit, may_read
from tests.factories import ChunkFactory
from tests.integration.index_world import make_file, make_space, make_store

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("seed", range(5))
def test_querysets_agree_with_the_rule(seed: int) -> None:
    rng = random.Random(seed)
    groups = [Group.objects.create(name=f"g{i}") for i in range(3)]
    users = [User.objects.create(username=f"u{i}") for i in range(3)]
    space = make_space()

    def some() -> list[Group]:
        return rng.sample(groups, rng.randint(0, 2))

    for i in range(6):
        store = make_store(
            space, f"s{i}", owner=rng.choice([None, *users]), is_public=rng.random() < 0.3
        )
        store.reader_groups.set(some())
        store.editor_groups.set(some())
        for j in range(3):
            file = make_file(store, f"f{i}{j}")
            file.restricted_to.set(some())
            ChunkFactory(file=file)
    memberships = [
        frozenset(c) for n in range(3) for c in itertools.combinations([g.pk for g in groups], n)
    ]
    scopes = [
        Scope(user, member) for user in (None, *(u.pk for u in users)) for member in memberships
    ]
    ids = [store.pk for store in models.Store.objects.all()]
    limits = [frozenset(), frozenset(rng.sample(ids, 2)), frozenset(rng.sample(ids, 4))]
    every = [*scopes, Scope.operator(), Scope.anonymous()]
    every += [replace(scope, only_store_ids=only) for scope in every for only in limits]
    stores = models.Store.objects.all()
    facts = {store.pk: store.facts for store in stores}
    files = [
        (file, facts[file.store_id], frozenset(group.pk for group in file.restricted_to.all()))
        for file in models.File.objects.prefetch_related("restricted_to")
    ]
    for scope in every:
        assert set(stores.readable(scope)) == {s for s in stores if may_read(scope, facts[s.pk])}
        assert set(stores.editable(scope)) == {s for s in stores if may_edit(scope, facts[s.pk])}
        allowed = {f for f, store, groups in files if may_read(scope, store, groups)}
        assert set(models.File.objects.readable(scope)) == allowed
        editable = {f for f, store, _ in files if may_edit(scope, store)}
        assert set(models.File.objects.editable(scope)) == editable
        chunks = models.Chunk.objects.values_list("file_id", flat=True)
        assert set(chunks.readable(scope)) == {f.pk for f in allowed}
        assert set(chunks.editable(scope)) == {f.pk for f in editable}
