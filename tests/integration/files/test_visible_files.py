"""What lists show is what the access rule says, whoever looks, without a join to the stores."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.core.access import Scope
from rag.services.access.api_keys import scope_of
from rag.services.files.visibility import visible_chunks, visible_files
from tests.factories import ChunkFactory, FileFactory, GroupFactory, StoreFactory, UserFactory

pytestmark = pytest.mark.django_db
PEOPLE = (
    "operator",
    "owner",
    "editor",
    "reader",
    "insider",
    "both",
    "stranger",
    "anonymous",
    "narrowed",
    "narrowed operator",
    "narrowed to none",
)


@pytest.fixture
def scopes() -> dict[str, Scope]:
    """Four stores, each with an open and a restricted file, and everybody who may look."""
    owner = UserFactory()
    editors, readers, inside = GroupFactory(), GroupFactory(), GroupFactory()
    stores = [
        StoreFactory(owner=owner),
        StoreFactory(editors=[editors]),
        StoreFactory(readers=[readers]),
        StoreFactory(is_public=True),
    ]
    for store in stores:
        for restricted in ([], [inside]):
            chunk = ChunkFactory(file=FileFactory(store=store, restricted=restricted))
            models.ChunkRevision.objects.create(
                chunk=chunk, revision=1, text="old", char_start=0, char_end=3, file_revision=1
            )

    def member(*groups: Any) -> Scope:
        return scope_of(UserFactory(groups=groups))

    some = frozenset({stores[1].pk, stores[2].pk})
    both = member(editors, readers)
    return {
        "operator": Scope.operator(),
        "owner": scope_of(owner),
        "editor": member(editors),
        "reader": member(readers),
        "insider": member(readers, inside),
        "both": both,
        "stranger": member(),
        "anonymous": Scope.anonymous(),
        "narrowed": Scope(both.user_id, both.group_ids, only_store_ids=some),
        "narrowed operator": Scope(None, is_operator=True, only_store_ids=some),
        "narrowed to none": Scope(None, is_operator=True, only_store_ids=frozenset()),
    }


@pytest.mark.parametrize("person", PEOPLE)
def test_they_are_those_that_the_rule_lets_one_read(scopes: dict[str, Scope], person: str) -> None:
    scope = scopes[person]
    files = set(models.File.objects.readable(scope))
    shown = visible_files(scope=scope, rows=models.File.objects.all())
    assert set(shown) == files
    assert len(shown) == len(files)
    chunks = visible_chunks(scope=scope, rows=models.Chunk.objects.all())
    assert set(chunks) == set(models.Chunk.objects.readable(scope))
    before = visible_chunks(scope=scope, rows=models.ChunkRevision.objects.all(), prefix="chunk__")
    assert {row.chunk for row in before} == set(chunks)


def test_the_people_differ(scopes: dict[str, Scope]) -> None:
    counts = {
        person: visible_files(scope=scope, rows=models.File.objects.all()).count()
        for person, scope in scopes.items()
    }
    assert counts == {
        "operator": 8,
        "owner": 3,
        "editor": 3,
        "reader": 2,
        "insider": 4,
        "both": 4,
        "stranger": 1,
        "anonymous": 1,
        "narrowed": 3,
        "narrowed operator": 4,
        "narrowed to none": 0,
    }


@pytest.mark.parametrize(("person", "n_asked"), [("operator", 1), ("editor", 3), ("reader", 3)])
def test_stores_stand_in_the_statement_by_number(
    scopes: dict[str, Scope], person: str, n_asked: int
) -> None:
    with CaptureQueriesContext(connection) as captured:
        list(visible_chunks(scope=scopes[person], rows=models.Chunk.objects.all()))
    assert len(captured) == n_asked
    assert "JOIN" not in captured.captured_queries[-1]["sql"]


def test_who_edits_all_that_is_read_is_asked_no_more(scopes: dict[str, Scope]) -> None:
    models.Store.objects.filter(is_public=True).update(is_public=False)
    with CaptureQueriesContext(connection) as captured:
        list(visible_files(scope=scopes["editor"], rows=models.File.objects.all()))
    assert "restricted_to" not in captured.captured_queries[-1]["sql"]
