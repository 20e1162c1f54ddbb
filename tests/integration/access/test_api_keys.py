"""Keys: shown once, kept as a digest, never more than their user, and ended at once."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from rag import models
from rag.core.errors import ForbiddenError, InvalidInputError, NotFoundError, UnknownNameError
from rag.core.types import RetrievalSettings
from rag.services.access.api_keys import (
    authenticate_key,
    caller_for_user,
    create_key,
    revoke_key,
    scope_of,
)
from rag.services.stores.lifecycle import delete_store, find_stores
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.index_hits import index_hits

pytestmark = pytest.mark.django_db


def test_only_the_digest_and_the_beginning_are_kept() -> None:
    key, secret = create_key(user=UserFactory(), name="  crawler ")
    assert secret.startswith("ck_")
    assert key.prefix == secret[:11]
    assert len(secret) >= 11 + 1 + 43
    row = models.ApiKey.objects.filter(pk=key.pk).values().get()
    assert row["digest"] == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(row)
    assert secret[12:] not in str(row)
    assert key.name == "crawler"


def test_keys_differ() -> None:
    user = UserFactory()
    secrets = {create_key(user=user, name="k")[1] for _ in range(20)}
    assert len(secrets) == 20


def test_a_key_acts_as_its_user() -> None:
    group = GroupFactory()
    user = UserFactory(groups=[group])
    key, secret = create_key(user=user, name="k", rights=["write", "read"], requests_per_minute=7)
    caller = authenticate_key(secret=secret)
    assert caller.user == user
    assert caller.scope == scope_of(user)
    assert caller.scope.group_ids == {group.pk}
    assert caller.rights == {"read", "write"}
    assert (caller.key_id, caller.limit) == (key.pk, 7)


def test_somebody_without_a_key_has_all_rights_of_a_key() -> None:
    assert caller_for_user(user=UserFactory()).rights == {"read", "write"}


@pytest.mark.parametrize(
    "wrong", ["", "ck_", "x", "ck_00000000_" + "a" * 43, "ü\ud800", "a" * 10_000]
)
def test_an_unknown_key_is_refused(wrong: str) -> None:
    create_key(user=UserFactory(), name="k")
    with pytest.raises(ForbiddenError, match="not known"):
        authenticate_key(secret=wrong)


def test_a_key_whose_last_letter_differs_is_refused() -> None:
    _, secret = create_key(user=UserFactory(), name="k")
    other = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    with pytest.raises(ForbiddenError, match="not known"):
        authenticate_key(secret=other)


def test_a_revoked_key_ends_at_once_and_once() -> None:
    key, secret = create_key(user=UserFactory(), name="k")
    assert authenticate_key(secret=secret)
    assert revoke_key(key=key)
    first = models.ApiKey.objects.get(pk=key.pk).revoked_at
    assert not revoke_key(key=key)
    assert models.ApiKey.objects.get(pk=key.pk).revoked_at == first
    with pytest.raises(ForbiddenError, match="revoked"):
        authenticate_key(secret=secret)


def test_a_key_expires() -> None:
    key, secret = create_key(
        user=UserFactory(), name="k", expires_at=timezone.now() + timedelta(hours=1)
    )
    assert authenticate_key(secret=secret)
    models.ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())
    with pytest.raises(ForbiddenError, match="expired"):
        authenticate_key(secret=secret)


def test_the_key_of_a_user_who_is_switched_off_is_refused() -> None:
    user = UserFactory()
    _, secret = create_key(user=user, name="k")
    user.is_active = False
    user.save()
    with pytest.raises(ForbiddenError, match="switched off"):
        authenticate_key(secret=secret)


def test_rights_follow_the_user_s_groups_at_once() -> None:
    group = GroupFactory()
    store = StoreFactory(readers=[group])
    user = UserFactory(groups=[group])
    _, secret = create_key(user=user, name="k")
    assert list(models.Store.objects.readable(authenticate_key(secret=secret).scope)) == [store]
    user.groups.clear()
    assert not models.Store.objects.readable(authenticate_key(secret=secret).scope).exists()


@pytest.mark.parametrize("is_superuser", [False, True])
def test_a_limited_key_sees_only_its_stores(
    is_superuser: bool, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    user = UserFactory(is_superuser=is_superuser)
    mine, other = StoreFactory(owner=user), StoreFactory(owner=user, is_public=True)
    for store in (mine, other):
        publish(FileFactory(store=store), f"the pump of {store.name}")
    _, secret = create_key(user=user, name="k", stores=[mine])
    scope = authenticate_key(secret=secret).scope
    assert scope.only_store_ids == {mine.pk}
    assert list(models.Store.objects.readable(scope)) == [mine]
    assert list(models.Store.objects.editable(scope)) == [mine]
    with pytest.raises(NotFoundError):
        find_stores(names=[other.slug], scope=scope)
    found = index_hits(
        query="pump", scope=scope, stores=[mine, other], settings=RetrievalSettings(top_k=10)
    )
    assert {hit.store_id for hit in found.hits} == {mine.pk}


def test_a_limited_key_whose_stores_are_gone_sees_nothing() -> None:
    user = UserFactory()
    mine, other = StoreFactory(owner=user), StoreFactory(owner=user)
    _, secret = create_key(user=user, name="k", stores=[mine])
    delete_store(store=mine)
    scope = authenticate_key(secret=secret).scope
    assert scope.only_store_ids == frozenset()
    assert not models.Store.objects.readable(scope).exists()
    assert models.Store.objects.filter(pk=other.pk).exists()


def test_a_key_cannot_name_stores_that_its_user_may_not_read() -> None:
    with pytest.raises(NotFoundError, match="There is no store"):
        create_key(user=UserFactory(), name="k", stores=[StoreFactory(owner=UserFactory())])
    assert not models.ApiKey.objects.exists()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"name": "  "}, InvalidInputError),
        ({"rights": []}, InvalidInputError),
        ({"rights": ["root"]}, UnknownNameError),
        ({"requests_per_minute": 0}, InvalidInputError),
        ({"requests_per_minute": 10**9}, InvalidInputError),
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, InvalidInputError),
    ],
)
def test_useless_keys_are_not_made(values: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        create_key(**{"user": UserFactory(), "name": "k", **values})
    assert not models.ApiKey.objects.exists()
