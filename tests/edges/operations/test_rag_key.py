"""rag_key as one types it: a key that opens what it says, and one sentence for each mistake."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag import models
from tests.edges.api_client import KeyClient
from tests.factories import StoreFactory, UserFactory

pytestmark = pytest.mark.django_db


def key_of(*words: str) -> str:
    out, beside = io.StringIO(), io.StringIO()
    call_command("rag_key", *words, stdout=out, stderr=beside)
    assert "ck_" not in beside.getvalue()
    return out.getvalue()


def test_what_it_prints_is_the_key_alone_and_the_key_opens() -> None:
    UserFactory(username="olga", is_superuser=True)
    StoreFactory(slug="house"), StoreFactory(slug="yard")
    printed = key_of("shop", "--user", "olga", "--store", "house", "--days", "3")
    assert printed.startswith("ck_") and printed.count("\n") == 1
    answer = KeyClient(printed.strip()).get("/api/stores").json()
    assert [store["slug"] for store in answer["results"]] == ["house"]
    row = models.ApiKey.objects.get()
    assert (row.name, row.rights, row.requests_per_minute) == ("shop", ["read"], 600)
    assert row.expires_at is not None
    assert 2 <= (row.expires_at - row.created_at).days <= 3


def test_it_writes_only_where_that_is_said() -> None:
    UserFactory(username="olga", is_superuser=True)
    for flags, status in (((), 403), (("--write",), 201)):
        client = KeyClient(key_of("shop", "--user", "olga", *flags).strip())
        assert client.send("post", "/api/stores", {"name": "New"}).status_code == status


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shop", "--user", "nobody"), "There is no user “nobody”"),
        ((" ", "--user", "olga"), "A key needs a name"),
        (("shop", "--user", "olga", "--store", "nowhere"), "There is no store “nowhere”"),
        (("shop", "--user", "olga", "--days", "0"), "--days is 0; allowed: 1 to 36500"),
        (("shop", "--user", "olga", "--per-minute", "0"), "requests_per_minute is 0"),
    ],
)
def test_mistakes_are_said_and_make_no_key(words: tuple[Any, ...], said: str) -> None:
    UserFactory(username="olga")
    with pytest.raises(CommandError, match=said):
        key_of(*words)
    assert not models.ApiKey.objects.exists()
