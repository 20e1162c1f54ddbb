"""Single sign-on against a real provider: what it says truly lets in, what is forged does not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from project.accounts.sign_on_settings import sign_on_providers
from tests.factories import UserFactory
from tests.fakes.oidc_provider import (
    OpenIDProvider,
    changed,
    running_provider,
    unsigned,
    with_foreign_key,
)

pytestmark = pytest.mark.django_db
NOW = int(time.time())
FAILED = "Single sign-on did not work; try again or ask an administrator."


@pytest.fixture(scope="module")
def running() -> Iterator[OpenIDProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def provider(running: OpenIDProvider, settings: Any) -> OpenIDProvider:
    running.forge = running.info = None
    settings.OIDC_ISSUER = running.issuer
    settings.OIDC_GROUPS = {"kb-readers": "Readers", "kb-editors": "Editors"}
    settings.OIDC_STAFF_GROUPS = ["kb-admins"]
    scopes = ["openid", "profile", "email"]
    settings.SOCIALACCOUNT_PROVIDERS = sign_on_providers(
        running.issuer, "citable", "a-secret", "Acme", scopes
    )
    for name in ("Readers", "Editors", "Local"):
        Group.objects.create(name=name)
    running.set_person(
        "s1", preferred_username="anna", email="anna@example.org", groups=["kb-readers", "vpn"]
    )
    return running


def groups_of(name: str) -> set[str]:
    return set(User.objects.get(username=name).groups.values_list("name", flat=True))


def is_refused(response: Any, sentence: str = FAILED, status: int = 401) -> bool:
    return response.status_code == status and sentence in response.content.decode()


def test_somebody_new_comes_in_with_the_mapped_groups(
    provider: OpenIDProvider, client: Client
) -> None:
    assert "Log in with SSO" in client.get("/chat/login").content.decode()
    came = provider.sign_in(client, "s1", next="/chat")
    assert (came.status_code, came["Location"]) == (302, "/chat")
    assert client.get("/chat").status_code == 200
    user = User.objects.get(username="anna")
    assert not user.is_staff and not user.is_superuser and not user.has_usable_password()
    assert groups_of("anna") == {"Readers"}


def test_groups_follow_the_provider_at_each_sign_in_and_local_ones_stay(
    provider: OpenIDProvider, client: Client
) -> None:
    provider.sign_in(client, "s1")
    User.objects.get(username="anna").groups.add(Group.objects.get(name="Local"))
    provider.set_person("s1", preferred_username="anna", groups=["kb-editors", "kb-admins"])
    assert provider.sign_in(Client(), "s1").status_code == 302
    assert groups_of("anna") == {"Editors", "Local"}
    assert User.objects.get(username="anna").is_staff
    provider.set_person("s1", preferred_username="root", groups="kb-readers")
    assert provider.sign_in(Client(), "s1").status_code == 302
    assert groups_of("anna") == {"Readers", "Local"}
    assert not User.objects.get(username="anna").is_staff


FORGED = {
    "issuer": changed(iss="https://evil.example.org"),
    "audience": changed(aud="another-app"),
    "several audiences for another": changed(aud=["citable", "x"], azp="x"),
    "nonce": changed(nonce="of-another-attempt"),
    "no nonce": changed(nonce=None),
    "expired": changed(exp=NOW - 3600, iat=NOW - 7200),
    "no end": changed(exp=None),
    "no subject": changed(sub=None),
    "another subject": changed(sub="s2"),
    "foreign key": with_foreign_key,
    "no signature": unsigned,
    "no token": lambda claims, key, header: "",
    "no JSON": lambda claims, key, header: "a.b.c",
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_token_lets_nobody_in(
    forgery: str, provider: OpenIDProvider, client: Client
) -> None:
    provider.forge = FORGED[forgery]
    assert is_refused(provider.sign_in(client, "s1"))
    assert client.get("/chat").status_code == 302
    assert not User.objects.exists()


def test_an_answer_without_its_attempt_or_twice_is_refused(
    provider: OpenIDProvider, client: Client
) -> None:
    address = provider.begin(client, "s1")
    assert is_refused(Client().get(address))
    assert client.get(address).status_code == 302
    assert is_refused(client.get(address))
    assert is_refused(client.get(address.replace("state=", "state=x")))
    assert is_refused(client.get("/accounts/sso/callback/?error=access_denied"))


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        (["strangers"], "None of your groups may use this site; ask its administrator."),
        ([], "None of your groups may use this site; ask its administrator."),
        ({"kb-readers": True}, "The groups that single sign-on tells cannot be read."),
        ([["kb-readers"]], "The groups that single sign-on tells cannot be read."),
    ],
)
def test_groups_that_let_nobody_in_are_refused_in_one_sentence(
    groups: Any, sentence: str, provider: OpenIDProvider, client: Client
) -> None:
    provider.set_person("s1", preferred_username="anna", groups=groups)
    assert is_refused(provider.sign_in(client, "s1"), sentence, 403)
    assert not User.objects.exists()
    chinese = client.get(provider.begin(client, "s1"), headers={"accept-language": "zh-hans"})
    assert sentence not in chinese.content.decode() and "。" in chinese.content.decode()


def test_a_group_of_ours_that_does_not_exist_is_refused(
    provider: OpenIDProvider, client: Client, settings: Any
) -> None:
    settings.OIDC_GROUPS = {"kb-readers": "Gone"}
    sentence = "A group of yours is not set up on this site; ask its administrator."
    assert is_refused(provider.sign_in(client, "s1"), sentence, 403)


def test_no_account_is_taken_over_by_its_name_or_address(
    provider: OpenIDProvider, client: Client
) -> None:
    root = UserFactory(username="anna", email="anna@example.org", is_superuser=True)
    assert provider.sign_in(client, "s1").status_code == 302
    signed_in = User.objects.get(pk=client.session["_auth_user_id"])
    assert signed_in.pk != root.pk and not signed_in.is_superuser
    assert not groups_of("anna")


def test_an_account_that_was_switched_off_stays_so(
    provider: OpenIDProvider, client: Client
) -> None:
    provider.sign_in(client, "s1")
    User.objects.update(is_active=False)
    assert is_refused(provider.sign_in(Client(), "s1"), "This account is switched off.", 403)


def test_nothing_of_the_request_changes_what_is_asked(
    provider: OpenIDProvider, client: Client
) -> None:
    query = {"process": "connect", "scope": "admin", "auth_params": "prompt=none&nonce=mine"}
    led = client.get("/accounts/sso/login/", query)["Location"]
    assert "prompt" not in led and "nonce=mine" not in led and "admin" not in led
    assert "code_challenge" in led
    came = provider.sign_in(client, "s1", next="https://evil.example.org/")
    assert came["Location"] == "/admin/"


def test_a_provider_that_does_not_answer_or_is_another_is_told(
    provider: OpenIDProvider, client: Client, settings: Any
) -> None:
    for issuer in ("http://127.0.0.1:9", f"{provider.issuer}/home"):
        settings.SOCIALACCOUNT_PROVIDERS = sign_on_providers(issuer, "citable", "", "Acme", [])
        assert is_refused(client.get("/accounts/sso/login/"))


def test_without_an_issuer_there_is_no_such_door(client: Client) -> None:
    assert client.get("/accounts/sso/login/").status_code == 404
    assert client.get("/accounts/sso/callback/?code=1&state=2").status_code == 404
    assert "SSO" not in client.get("/chat/login").content.decode()
