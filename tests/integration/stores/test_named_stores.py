"""Stores by what people call them: the same display name makes several, also at one moment."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from rag import models
from rag.core.access import Scope
from rag.core.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnknownNameError,
)
from rag.services.access.api_keys import scope_of
from rag.services.stores.lifecycle import create_named_store, create_store, find_stores
from tests.factories import UserFactory


@pytest.fixture
def scope() -> Scope:
    return scope_of(UserFactory())


@pytest.mark.django_db(transaction=True)
def test_one_display_name_at_one_moment_is_as_many_stores_as_were_asked_for() -> None:
    scope = scope_of(UserFactory())
    start = threading.Barrier(8)
    made: list[models.Store] = []

    def make() -> None:
        try:
            start.wait(10)
            made.append(create_named_store(scope=scope, display_name="Guides"))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert {store.display_name for store in made} == {"Guides"}
    assert len({store.name for store in made}) == len({store.slug for store in made}) == 8
    assert models.Store.objects.filter(name="Guides").count() == 1


@pytest.mark.django_db
def test_a_second_store_of_a_display_name_gets_another_name(scope: Scope) -> None:
    first = create_named_store(scope=scope, display_name="  Guides   of  2026 ")
    second = create_named_store(scope=scope, display_name="Guides of 2026")
    assert first.name == first.display_name == second.display_name == "Guides of 2026"
    assert second.name.startswith("Guides of 2026 · ")
    assert first.owner_id == second.owner_id == scope.user_id


@pytest.mark.django_db
def test_a_name_that_is_taken_is_a_conflict_for_who_asked_for_that_name() -> None:
    create_store(name="Guides")
    with pytest.raises(ConflictError, match="“Guides” cannot be used"):
        create_store(name="Guides")


@pytest.mark.django_db
@pytest.mark.parametrize("shown", ["", "   ", "x" * 513])
def test_an_unusable_display_name_is_refused(scope: Scope, shown: str) -> None:
    with pytest.raises(InvalidInputError, match="display name has"):
        create_named_store(scope=scope, display_name=shown)
    assert not models.Store.objects.exists()


@pytest.mark.django_db
def test_an_unknown_backend_lists_the_known_ones(scope: Scope) -> None:
    with pytest.raises(UnknownNameError) as caught:
        create_named_store(scope=scope, display_name="Guides", backend="other")
    assert "local" in str(caught.value) and "gemini" in str(caught.value)


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["\0", "a\0b", "\ud800", "a\udcffb", "", " "])
def test_a_name_that_no_store_can_have_is_not_found(name: str, scope: Scope) -> None:
    guides = create_named_store(scope=scope, display_name="Guides")
    assert find_stores(names=["Guides"], scope=scope) == [guides]
    with pytest.raises(NotFoundError, match="There is no store"):
        find_stores(names=["Guides", name], scope=scope)
