"""Sessions end after idle time and, used or not, some hours after sign-in."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.test import Client

from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, settings: Any) -> list[float]:
    settings.SESSION_IDLE_S, settings.SESSION_MAX_S = 1800, 7200
    seconds = [time.time()]
    monkeypatch.setattr("project.accounts.session.time.time", lambda: seconds[0])
    return seconds


def is_in(client: Client) -> bool:
    return client.get("/chat").status_code == 200


def test_who_does_nothing_is_signed_out(client: Client, clock: list[float]) -> None:
    client.force_login(UserFactory())
    clock[0] += 1700
    assert is_in(client)
    clock[0] += 1700
    assert is_in(client)
    clock[0] += 1801
    assert not is_in(client)


def test_who_goes_on_is_signed_out_all_the_same(client: Client, clock: list[float]) -> None:
    client.force_login(UserFactory())
    for _ in range(4):
        clock[0] += 1700
        assert is_in(client)
    clock[0] += 500
    assert not is_in(client)


def test_what_came_before_the_sign_in_does_not_count(client: Client, clock: list[float]) -> None:
    session = client.session
    session["language"] = "en"
    session.save()
    clock[0] += 1000
    client.force_login(UserFactory())
    for _ in range(4):
        clock[0] += 1700
        assert is_in(client)


def test_a_session_is_written_at_most_once_a_minute(client: Client, clock: list[float]) -> None:
    client.force_login(UserFactory())
    before = Session.objects.get().session_data
    clock[0] += 30
    assert is_in(client)
    assert Session.objects.get().session_data == before


def test_nought_has_no_end(client: Client, clock: list[float], settings: Any) -> None:
    settings.SESSION_IDLE_S = settings.SESSION_MAX_S = 0
    client.force_login(UserFactory())
    clock[0] += 1_000_000
    assert is_in(client)


@pytest.mark.parametrize("password", ["short-1x", "password123", "20261129314159", "annabelle-42"])
def test_passwords_that_are_guessed_first_are_refused(password: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(password, User(username="annabelle42"))
