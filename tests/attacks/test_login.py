"""Guessing at the login doors: one account, many accounts, many addresses, forged headers and cookies.

Before there was a throttle nothing bounded how many passwords could be tried at each door.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings as site
from django.core.management import call_command
from django.db.models import F
from django.test import Client

from tests.factories import UserFactory

DOORS = ("/admin/login/", "/chat/login")
RIGHT, HOME, AWAY = "right-one-2026", "203.0.113.7", "198.51.100.9"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quick(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.LOGIN_FAILURES = {"pair": 3, "account": 5, "address": 7}


def person(name: str) -> Any:
    user = UserFactory(username=name, is_staff=True, is_superuser=True)
    user.set_password(RIGHT)
    user.save()
    return user


def enter(name: str, password: str = "wrong", *, address: str = HOME, **values: Any) -> Any:
    client = values.pop("client", None) or Client()
    door = values.pop("door", DOORS[1])
    form = {"username": name, "password": password}
    return client.post(door, form, REMOTE_ADDR=address, **values)


def fail(name: str, times: int, **values: Any) -> list[int]:
    return [enter(name, **values).status_code for _ in range(times)]


@pytest.mark.parametrize("door", DOORS)
def test_one_account_from_one_address_waits_and_is_told_how_long(door: str) -> None:
    person("anna"), person("ben")
    assert fail("anna", 3, door=door) == [200, 200, 429]
    locked = enter("anna", RIGHT, door=door)
    assert locked.status_code == 429 and 800 < int(locked["Retry-After"]) <= 900
    assert "Too many attempts to log in failed. Try again in 15 minutes." in locked.content.decode()
    assert "sessionid" not in locked.cookies
    chinese = enter("anna", RIGHT, door=door, headers={"accept-language": "zh-hans"})
    assert "登录失败次数过多，请在 15 分钟后重试。" in chinese.content.decode()
    # Others behind the same proxy, and the same person elsewhere, go in; the other door is locked too.
    assert enter("ben", RIGHT, door=door).status_code == 302
    assert enter("anna", RIGHT, door=door, address=AWAY).status_code == 302
    assert {enter("anna", RIGHT, door=other).status_code for other in DOORS} == {429}


def test_names_that_nobody_has_are_answered_alike() -> None:
    person("anna")
    assert fail("anna", 4) == fail("nobody", 4)
    real, none = enter("anna").content.decode(), enter("nobody").content.decode()
    assert real == none


def test_many_accounts_from_one_address_lock_it_for_unknown_browsers_alone() -> None:
    person("anna")
    known = Client()
    assert enter("anna", RIGHT, client=known).status_code == 302
    known.post("/chat/logout")
    assert [enter(f"guess{n}").status_code for n in range(8)] == [200] * 6 + [429] * 2
    assert enter("anna", RIGHT).status_code == 429
    assert enter("anna", RIGHT, client=known).status_code == 302
    assert enter("anna", RIGHT, address=AWAY).status_code == 302


def test_an_account_tried_from_everywhere_locks_but_for_its_own_browsers() -> None:
    person("anna")
    known = Client()
    enter("anna", RIGHT, client=known)
    known.post("/chat/logout")
    tried = [enter("anna", address=f"192.0.2.{n}").status_code for n in range(6)]
    assert tried == [200] * 4 + [429] * 2
    assert enter("anna", RIGHT, address=AWAY).status_code == 429
    assert enter("anna", RIGHT, client=known, address=AWAY).status_code == 302
    # A stolen browser has tries of its own, no more.
    known.post("/chat/logout")
    assert fail("anna", 3, client=known) == [200, 200, 429]


def test_a_lock_ends_and_is_not_prolonged_by_more_attempts() -> None:
    person("anna")
    fail("anna", 3)
    later = timedelta(minutes=site.LOGIN_LOCK_MINUTES - 1)
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - later)
    refused = enter("anna", RIGHT)
    assert "Try again in 1 minute." in refused.content.decode()
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=1))
    assert enter("anna", RIGHT).status_code == 302
    assert not AccessAttempt.objects.exists()


@pytest.mark.parametrize(
    "header", [{"x-forwarded-for": "{n}"}, {"forwarded": "for={n}"}, {"user-agent": "{n}"}]
)
def test_nobody_escapes_by_what_they_say_of_themselves(header: dict[str, str]) -> None:
    person("anna")
    told = [
        {name: value.format(n=f"8.8.8.{n}") for name, value in header.items()} for n in range(4)
    ]
    assert [enter("anna", headers=one).status_code for one in told] == [200, 200, 429, 429]


def test_a_network_of_ipv6_is_one_address() -> None:
    tried = [enter(f"guess{n}", address=f"2001:db8:1:2::{n:x}").status_code for n in range(8)]
    assert tried[-2:] == [429, 429]
    assert enter("guess1", address="2001:db8:1:3::1").status_code == 200


def test_a_cookie_of_another_account_or_of_ones_own_making_is_none() -> None:
    person("anna"), person("mallory")
    fail("anna", 3)
    client = Client()
    enter("mallory", RIGHT, client=client)
    client.post("/chat/logout")
    assert enter("anna", RIGHT, client=client).status_code == 429
    for made in ("", "anna", "eyJuYW1lIjoiYW5uYSJ9:1abc:forged"):
        client.cookies["known_browser"] = made
        assert enter("anna", RIGHT, client=client).status_code == 429


def test_a_success_of_an_attackers_own_account_forgives_the_address_nothing() -> None:
    person("mallory")
    for n in range(6):
        enter(f"guess{n}")
        enter("mallory", RIGHT)
    assert enter("guess7").status_code == 429


def test_operators_unlock_by_command() -> None:
    person("anna")
    fail("anna", 3)
    call_command("axes_reset_username", "anna", verbosity=0)
    assert enter("anna", RIGHT).status_code == 302
