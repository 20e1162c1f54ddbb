"""A store's new values: all or none, by who may, and nothing that a search would choke on."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, ForbiddenError, InvalidInputError, UnknownNameError
from rag.services.access.api_keys import scope_of
from rag.services.stores import lifecycle as service
from rag.services.stores.lifecycle import update_store
from tests.factories import GroupFactory, StoreFactory, UserFactory

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()


def update(store: models.Store, scope: Scope = OPERATOR, **values: Any) -> models.Store:
    update_store(scope=scope, store=store, values=values)
    return models.Store.objects.get(pk=store.pk)


def test_only_the_given_fields_are_written() -> None:
    store = StoreFactory(display_name="before")
    stale = models.Store.objects.get(pk=store.pk)
    update(store, display_name="after")
    row = update(stale, retrieval={"top_k": 9})
    assert (row.display_name, row.retrieval) == ("after", {"top_k": 9})
    assert row.updated_at > store.created_at


def test_groups_are_set_kept_and_emptied() -> None:
    store, one, other = StoreFactory(), GroupFactory(), GroupFactory()
    update_store(scope=OPERATOR, store=store, values={}, reader_groups=[one], editor_groups=[other])
    update_store(scope=OPERATOR, store=store, values={"is_public": True})
    assert list(store.reader_groups.all()) == [one]
    update_store(scope=OPERATOR, store=store, values={}, reader_groups=[])
    assert list(store.reader_groups.all()) == []
    assert list(store.editor_groups.all()) == [other]


@pytest.mark.parametrize("relation", ["owner", "editor"])
def test_owners_and_editors_may(relation: str) -> None:
    group = GroupFactory()
    user = UserFactory(groups=[group])
    store = StoreFactory(owner=user) if relation == "owner" else StoreFactory(editors=[group])
    assert update(store, scope_of(user), display_name="x").display_name == "x"


def test_readers_may_not() -> None:
    group = GroupFactory()
    store = StoreFactory(readers=[group], is_public=True)
    for scope in (scope_of(UserFactory(groups=[group])), Scope.anonymous()):
        with pytest.raises(ForbiddenError, match="You may read"):
            update(store, scope, display_name="x")
    limited = Scope(None, is_operator=True, only_store_ids=frozenset())
    with pytest.raises(ForbiddenError):
        update(store, limited, display_name="x")
    assert models.Store.objects.get(pk=store.pk).display_name == ""


@pytest.mark.parametrize("field", ["owner", "space", "n_chunks", "resource_name", "backend", "x"])
def test_what_is_not_to_be_changed_is_refused(field: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be changed"):
        update(StoreFactory(), **{field: "x"})


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"retrieval": {"topk": 1}}, UnknownNameError),
        ({"retrieval": {"top_k": 0}}, InvalidInputError),
        ({"max_tokens_per_chunk": 10}, ValidationError),
        ({"max_overlap_tokens": 101}, ValidationError),
        ({"slug": "a b"}, ValidationError),
        ({"name": ""}, ValidationError),
    ],
)
def test_bad_values_change_nothing(values: dict[str, Any], error: type[Exception]) -> None:
    store = StoreFactory()
    with pytest.raises(error):
        update(store, display_name="x", **values)
    assert models.Store.objects.get(pk=store.pk).display_name == ""


def test_a_name_is_given_once() -> None:
    store, other = StoreFactory(), StoreFactory()
    for field in ("name", "slug"):
        with pytest.raises(ConflictError, match="cannot be used"):
            update(store, **{field: getattr(other, field)})
    assert update(store, name=store.name, slug=store.slug).name == store.name


def test_a_name_taken_at_this_very_moment_is_a_conflict_too(monkeypatch: Any) -> None:
    store, other = StoreFactory(), StoreFactory(name="taken")
    check, calls = service._check_names, []

    def late(*values: Any) -> None:
        calls.append(values)
        if len(calls) > 1:
            check(*values)

    # The first look finds the name free; the database does not.
    monkeypatch.setattr(service, "_check_names", late)
    with pytest.raises(ConflictError, match="“taken” cannot be used"):
        update(store, name=other.name)
    assert len(calls) == 2
