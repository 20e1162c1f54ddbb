"""The stores that programs are told of: counted at once, and never more than may be read."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.chat.mcp.tools import ListStoresTool
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.tools import ToolCall
from rag.services.access.api_keys import scope_of
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db


def listed(scope: Scope) -> tuple[Any, int]:
    """Return what is listed, and with how many statements."""
    ports: Any = None
    with CaptureQueriesContext(
        connection,
    ) as asked:
        told = ListStoresTool().run(ToolCall(ListStoresTool.Options(), scope, Deadline(5), ports))
    return told["stores"], len(asked)


def test_many_stores_take_no_more_statements_than_one() -> None:
    user = UserFactory()
    scope = scope_of(user)
    assert listed(scope)[0] == []
    first = StoreFactory(owner=user, slug="a", name="A")
    publish(FileFactory(store=first), "Seen.")
    FileFactory(store=first)
    found, n_asked = listed(scope)
    assert found == [{"store": "a", "title": "A", "files": 1}]
    for number in range(5):
        publish(FileFactory(store=StoreFactory(owner=user, slug=f"s{number}")), "Seen.")
    found, n_of_six = listed(scope)
    assert [one["files"] for one in found] == [1] * 6 and n_of_six == n_asked


def test_files_of_other_groups_are_not_counted() -> None:
    user, group = UserFactory(), GroupFactory()
    store = StoreFactory(owner=UserFactory(), slug="shared", is_public=True)
    publish(FileFactory(store=store), "For all.")
    hidden = FileFactory(store=store)
    publish(hidden, "For some.")
    hidden.restricted_to.set([group])
    assert [one["files"] for one in listed(scope_of(user))[0]] == [1]
