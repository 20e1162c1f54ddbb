"""Second factors: at both doors, required of staff where settings say so, counted like passwords."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core.management import CommandError, call_command
from django.test import Client

from tests.factories import UserFactory

RIGHT, ENROLMENT = "right-one-2026", "/accounts/enrolment/"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quick(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.LOGIN_FAILURES = {"pair": 3, "account": 50, "address": 70}
    settings.SECOND_FACTOR = "staff"


def person(name: str, **values: Any) -> Any:
    user = UserFactory(username=name, **values)
    user.set_password(RIGHT)
    user.save()
    return user


def enter(client: Client, name: str, door: str = "/admin/login/") -> Any:
    return client.post(f"{door}?next=/chat", {"username": name, "password": RIGHT})


def code_of(secret: str, steps: int = 0) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps)))


def enrolled(name: str) -> tuple[str, list[str]]:
    """Return the secret and the recovery codes of a member of staff who has just enrolled."""
    person(name, is_staff=True)
    client = Client()
    assert enter(client, name)["Location"] == ENROLMENT
    secret = re.search(r'class="key">(\w+)', client.get(ENROLMENT).content.decode())
    assert secret is not None
    shown = client.post(ENROLMENT, {"code": code_of(secret[1])})
    assert client.get("/chat").status_code == 200
    return secret[1], re.findall(r"<li><code>(\d+)", shown.content.decode())


def test_staff_is_let_in_with_a_second_factor_alone(client: Client) -> None:
    person("anna", is_staff=True)
    for door in ("/admin/login/", "/chat/login"):
        assert enter(client, "anna", door)["Location"] == ENROLMENT
        assert client.get("/admin/").status_code == client.get("/chat").status_code == 302
    assert client.post(ENROLMENT, {"code": "000000"}).status_code == 200
    assert client.get("/chat").status_code == 302
    assert not Authenticator.objects.exists()
    assert Client().get(ENROLMENT).status_code == 302


@pytest.mark.parametrize("door", ["/admin/login/", "/chat/login"])
def test_who_has_one_is_asked_for_a_code_at_each_sign_in(door: str, client: Client) -> None:
    secret, codes = enrolled("anna")
    assert len(codes) == 10
    asked = enter(client, "anna", door)["Location"]
    assert client.get("/chat").status_code == 302
    assert client.post(asked, {"code": codes[0]})["Location"] == "/chat"
    assert client.get("/chat").status_code == 200
    again = Client()
    enter(again, "anna", door)
    assert again.post(asked, {"code": codes[0]}).status_code == 200
    assert again.post(asked, {"code": code_of(secret, 1)}).status_code == 302


def test_codes_are_guessed_no_more_often_than_passwords(client: Client) -> None:
    secret, _ = enrolled("anna")
    asked = enter(client, "anna")["Location"]
    tried = [client.post(asked, {"code": f"{n:06}"}).status_code for n in range(3)]
    assert tried == [200, 200, 429]
    assert client.post(asked, {"code": code_of(secret, 1)}).status_code == 429
    assert enter(Client(), "anna").status_code == 429
    call_command("rag_unlock", "anna", verbosity=0)
    assert client.post(asked, {"code": code_of(secret, 1)}).status_code == 302


def test_secrets_lie_sealed_and_an_operator_takes_them_away(client: Client) -> None:
    secret, codes = enrolled("anna")
    kept = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in kept and codes[0] not in kept
    call_command("rag_unlock", "anna", "--second-factor", verbosity=0)
    assert enter(client, "anna")["Location"] == ENROLMENT
    with pytest.raises(CommandError):
        call_command("rag_unlock", "nobody")


def test_readers_need_none_and_may_have_one(client: Client, settings: Any) -> None:
    person("ben", is_staff=False)
    assert enter(client, "ben", "/chat/login")["Location"] == "/chat"
    assert "Second factor" in client.get("/chat").content.decode()
    assert client.get("/accounts/second-factor/").status_code == 200
    settings.SECOND_FACTOR = "off"
    assert client.get("/accounts/second-factor/totp/activate/").status_code == 404
    assert "Second factor" not in client.get("/chat").content.decode()
