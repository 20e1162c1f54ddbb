"""Listeners on the wire: with HTTPS alone nothing of a session travels without TLS."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client, override_settings

from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


@override_settings(SECURE_SSL_REDIRECT=True, SECURE_HSTS_SECONDS=600)
def test_plain_requests_are_redirected_but_for_probes(client: Client) -> None:
    plain = client.get("/chat")
    assert (plain.status_code, plain["Location"]) == (301, "https://testserver/chat")
    assert client.get("/healthz").status_code == 200
    # Nobody makes a plain request a secure one by saying so.
    told = client.get("/chat", headers={"X-Forwarded-Proto": "https"})
    assert told.status_code == 301
    secure = client.get("/healthz", secure=True)
    assert secure["Strict-Transport-Security"] == "max-age=600"


@override_settings(SESSION_COOKIE_SECURE=True, CSRF_COOKIE_SECURE=True)
def test_cookies_are_for_tls_and_not_for_scripts(client: Client) -> None:
    user = UserFactory(is_staff=True, is_superuser=True)
    user.set_password("right-one-2026")
    user.save()
    form = {"username": user.username, "password": "right-one-2026"}
    answer = client.post("/admin/login/", form, secure=True)
    assert answer.status_code == 302
    session = answer.cookies[settings.SESSION_COOKIE_NAME]
    assert session["secure"] and session["httponly"] and session["samesite"] == "Lax"
    assert answer.cookies[settings.CSRF_COOKIE_NAME]["secure"]
