"""API keys in the admin: created for oneself, shown once, listed without secret, revoked."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from rag import models
from rag.core.errors import ForbiddenError
from rag.services.access.api_keys import authenticate_key, create_key
from tests.edges.admin_client import at, client_of, page, post_action, words
from tests.factories import StoreFactory, UserFactory

pytestmark = pytest.mark.django_db
KEEPER = ("view_apikey", "add_apikey", "change_apikey", "delete_apikey", "view_store")


def make(client: Client, **values: Any) -> Any:
    data = {
        "name": "crawler",
        "rights": ["read"],
        "stores": [],
        "expires_at_0": "",
        "expires_at_1": "",
        **values,
    }
    return client.post(at("rag_apikey_add"), data)


def secret_in(response: Any) -> str:
    found = re.search(r'id="api-key">(ck_[^<]+)<', response.content.decode())
    assert found, words(response.content.decode())[:1500]
    return found.group(1)


def test_a_key_is_shown_once_and_never_again() -> None:
    user = UserFactory(permissions=KEEPER)
    client = client_of(user)
    response = make(client)
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    secret = secret_in(response)
    caller = authenticate_key(secret=secret)
    assert (caller.user, caller.rights) == (user, {"read"})
    key = models.ApiKey.objects.get()
    for shown in (page(client, "rag_apikey_changelist"), page(client, "rag_apikey_change", key.pk)):
        assert key.prefix in shown
        assert secret not in shown
        assert secret[12:] not in shown
    kept = [entry.object_repr + entry.change_message for entry in LogEntry.objects.all()]
    kept += [str(session.get_decoded()) for session in Session.objects.all()]
    kept += [morsel.value for morsel in client.cookies.values()]
    assert kept
    assert not [text for text in kept if secret[12:] in text]


def test_people_make_keys_for_themselves_only() -> None:
    user, other = UserFactory(permissions=KEEPER), UserFactory()
    client = client_of(user)
    assert 'name="user"' not in page(client, "rag_apikey_add")
    assert 'name="requests_per_minute"' not in page(client, "rag_apikey_add")
    secret = secret_in(make(client, user=other.pk, requests_per_minute=90_000))
    key = models.ApiKey.objects.get()
    assert (key.user, key.requests_per_minute) == (user, 600)
    assert authenticate_key(secret=secret).user == user


def test_superusers_make_keys_for_others_and_set_limits() -> None:
    boss, other = UserFactory(is_superuser=True), UserFactory()
    store = StoreFactory(owner=other)
    response = make(
        client_of(boss),
        user=other.pk,
        requests_per_minute=5,
        rights=["read", "write"],
        stores=[store.pk],
    )
    caller = authenticate_key(secret=secret_in(response))
    assert (caller.user, caller.limit, caller.rights) == (other, 5, {"read", "write"})
    assert caller.scope.only_store_ids == {store.pk}
    assert not caller.scope.is_operator


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"rights": []}, "This field is required."),
        ({"rights": ["root"]}, "root"),
        ({"name": ""}, "This field is required."),
        ({"expires_at_0": "2020-01-01", "expires_at_1": "00:00"}, "expired already"),
    ],
)
def test_useless_keys_are_refused_in_the_form(values: dict[str, Any], told: str) -> None:
    response = make(client_of(UserFactory(permissions=KEEPER)), **values)
    assert told in words(response.content.decode())
    assert not models.ApiKey.objects.exists()


def test_stores_of_others_cannot_be_named() -> None:
    store = StoreFactory(owner=UserFactory())
    response = make(client_of(UserFactory(permissions=KEEPER)), stores=[store.pk])
    assert response.status_code == 200
    assert 'id="api-key"' not in response.content.decode()
    assert not models.ApiKey.objects.exists()
    boss = client_of(UserFactory(is_superuser=True))
    stranger = UserFactory()
    shown = words(
        make(boss, user=stranger.pk, requests_per_minute=1, stores=[store.pk]).content.decode()
    )
    assert f"There is no store “{store.name}”." in shown


def test_a_key_is_revoked_from_the_list() -> None:
    user = UserFactory(permissions=KEEPER)
    key, secret = create_key(user=user, name="k")
    response = post_action(client_of(user), "apikey", "revoke", [key.pk])
    text = words(response.content.decode())
    assert "1 key was revoked." in text
    assert "revoked" in text
    with pytest.raises(ForbiddenError, match="revoked"):
        authenticate_key(secret=secret)


def test_the_list_tells_states_and_shows_only_one_s_own() -> None:
    user, other = UserFactory(permissions=KEEPER), UserFactory()
    create_key(user=user, name="fresh")
    old, _ = create_key(user=user, name="ancient", stores=[StoreFactory(owner=user)])
    models.ApiKey.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(days=1))
    theirs, _ = create_key(user=other, name="theirs")
    text = words(page(client_of(user), "rag_apikey_changelist"))
    assert "theirs" not in text
    for said in ("fresh", "ancient", "valid", "expired", "only some", "all of the user"):
        assert said in text
    response = client_of(user).get(at("rag_apikey_change", theirs.pk))
    assert response.status_code in (302, 404)
    post_action(client_of(user), "apikey", "revoke", [theirs.pk])
    assert models.ApiKey.objects.get(pk=theirs.pk).revoked_at is None
    assert "theirs" in words(
        page(client_of(UserFactory(is_superuser=True)), "rag_apikey_changelist")
    )


def test_of_a_key_that_was_given_out_only_the_name_changes() -> None:
    user = UserFactory(permissions=KEEPER)
    key, _ = create_key(user=user, name="k")
    data = {"name": "renamed", "rights": ["read", "write"], "requests_per_minute": 99_999}
    response = client_of(user).post(at("rag_apikey_change", key.pk), data)
    assert response.status_code == 302
    row = models.ApiKey.objects.get()
    assert (row.name, row.rights, row.requests_per_minute) == ("renamed", ["read"], 600)


def test_without_the_permission_there_is_no_key() -> None:
    client = client_of(UserFactory())
    assert client.get(at("rag_apikey_changelist")).status_code == 403
    assert make(client).status_code == 403
    assert not models.ApiKey.objects.exists()


def test_the_way_to_the_keys_is_shown_to_whom_it_is_open() -> None:
    keeper = page(client_of(UserFactory(permissions=KEEPER)), "index")
    assert at("rag_apikey_changelist") in keeper
    assert at("rag_apikey_changelist") not in page(client_of(UserFactory()), "index")
