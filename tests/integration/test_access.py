"""The access rule in SQL is the rule of rag.core.access, for random users, groups and files."""

from __future__ import annotations

import itertools
import random

import pytest
from django.contrib.auth.models import Group, User

from rag import models
from rag.core.access import Scope, may_edit, may_read
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
            make_file(store, f"f{i}{j}").restricted_to.set(some())
    memberships = [
        frozenset(c) for n in range(3) for c in itertools.combinations([g.pk for g in groups], n)
    ]
    scopes = [
        Scope(user, member) for user in (None, *(u.pk for u in users)) for member in memberships
    ]
    for scope in [*scopes, Scope.operator(), Scope.anonymous()]:
        stores = models.Store.objects.all()
        files = models.File.objects.select_related("store")
        assert set(stores.readable(scope)) == {s for s in stores if may_read(scope, s.facts)}
        assert set(stores.editable(scope)) == {s for s in stores if may_edit(scope, s.facts)}
        allowed = {
            f for f in files
            if may_read(scope, f.store.facts, frozenset(g.pk for g in f.restricted_to.all()))
        }  # fmt: skip
        assert set(models.File.objects.readable(scope)) == allowed
        editable = {f for f in files if may_edit(scope, f.store.facts)}
        assert set(models.File.objects.editable(scope)) == editable
