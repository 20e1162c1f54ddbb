"""The chat page as it is served: to whom, with what in it, and what a browser is told to allow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from agents import models
from agents.admin.chat_page import TEXTS
from tests.edges.admin_client import client_of
from tests.factories import GroupFactory, StoreFactory, UserFactory

pytestmark = pytest.mark.django_db


def data_of(client: Client) -> dict[str, Any]:
    response = client.get("/chat")
    assert response.status_code == 200
    found = re.search(
        r'<script id="chat-data" type="application/json">(.*?)</script>',
        response.content.decode(),
        re.DOTALL,
    )
    assert found
    told: dict[str, Any] = json.loads(found[1])
    return told


def test_strangers_are_sent_to_sign_in_and_nothing_but_looking_is_taken() -> None:
    response = client_of().get("/chat")
    assert response.status_code == 302 and response["Location"] == "/chat/login?next=/chat"
    assert client_of(UserFactory()).post("/chat").status_code == 405


def test_a_browser_may_run_and_load_nothing_but_our_own_files() -> None:
    response = client_of(UserFactory()).get("/chat")
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    page = response.content.decode()
    # Under this policy a script or style in the page itself would be dead.
    scripts = re.findall(r"<script[^>]*>", page)
    assert [one for one in scripts if "src=" not in one and "application/json" not in one] == []
    assert "style=" not in page and "<style" not in page and " onclick" not in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert response["Cache-Control"] == "no-store" and "csrftoken" in response.cookies


def test_a_reader_without_a_desk_signs_in_and_out() -> None:
    reader = UserFactory(username="reader", is_staff=False)
    reader.set_password("correct horse")
    reader.save()
    client = Client()
    form = {"username": "reader", "password": "wrong", "next": "/chat"}
    refused = client.post("/chat/login", form)
    assert (
        refused.status_code == 200 and "Please enter a correct username" in refused.content.decode()
    )
    assert client.get("/chat").status_code == 302
    signed_in = client.post("/chat/login", {**form, "password": "correct horse"})
    assert (signed_in.status_code, signed_in["Location"]) == (302, "/chat")
    page = client.get("/chat")
    assert page.status_code == 200 and 'href="/admin/"' not in page.content.decode()
    assert client.get("/chat/login")["Location"] == "/chat"
    assert client.post("/chat/logout")["Location"] == "/chat/login"
    assert client.get("/chat").status_code == 302


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)"]
)
def test_the_door_leads_nowhere_else(target: str) -> None:
    user = UserFactory()
    user.set_password("correct horse")
    user.save()
    form = {"username": user.username, "password": "correct horse", "next": target}
    assert Client().post("/chat/login", form)["Location"] == "/chat"


def test_the_door_is_under_the_same_policy_in_the_visitor_s_language() -> None:
    response = Client().get("/chat/login", headers={"accept-language": "zh-hans"})
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert response["Cache-Control"] == "no-store"
    page = response.content.decode()
    assert '<html lang="zh-hans">' in page and "登录" in page and "style=" not in page
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/chat/login", {"username": "a", "password": "b"}).status_code == 403


def test_one_sees_only_agents_and_stores_that_are_ones_own_to_ask() -> None:
    group = GroupFactory()
    reader = UserFactory(groups=[group])
    open_ = StoreFactory(slug="open", readers=[group])
    hidden = StoreFactory(slug="hidden")
    both = models.Agent.objects.create(name="both", owner=reader)
    both.stores.set([open_, hidden])
    models.Agent.objects.create(name="all", is_public=True)
    models.Agent.objects.create(name="foreign", owner=UserFactory())
    models.Agent.objects.create(name="off", owner=reader, is_enabled=False)
    told = data_of(client_of(reader))
    agents = {agent["name"]: agent["stores"] for agent in told["agents"]}
    # Those that are built in may be asked by all.
    own = {name: agents[name] for name in agents if name in ("both", "all", "foreign", "off")}
    assert own == {"both": ["open"], "all": ["open"]}
    assert [store["slug"] for store in told["stores"]] == ["open"]


def test_names_cannot_leave_the_data() -> None:
    user = UserFactory()
    evil = "</script><script>alert(1)</script>"
    StoreFactory(owner=user, name=evil)
    models.Agent.objects.create(name="a", owner=user, display_name=evil, description=evil)
    page = client_of(user).get("/chat").content.decode()
    assert "<script>alert" not in page
    assert data_of(client_of(user))["stores"][0]["name"] == evil


def test_it_speaks_the_reader_s_language() -> None:
    user = UserFactory()
    english = client_of(user).get("/chat").content.decode()
    chinese = client_of(user, "zh-hans").get("/chat").content.decode()
    assert '<html lang="en">' in english and '<html lang="zh-hans">' in chinese
    assert "New conversation" in english
    assert set(data_of(client_of(user, "zh-hans"))["texts"]) == set(TEXTS)


def test_every_text_that_the_scripts_ask_for_is_there() -> None:
    used: set[str] = set()
    for name in ("chat", "messages", "citation_panel", "api_client", "export"):
        script = Path(str(finders.find(f"agents/chat/{name}.js"))).read_text(encoding="utf-8")
        used |= set(re.findall(r"\btexts\.(\w+)", script))
    verdicts = ("verified", "abridged", "altered", "wrong_document", "unknown")
    used |= {"contradicted", "unsupported"}
    assert used | {*verdicts, *(f"about_{name}" for name in verdicts)} == set(TEXTS)
