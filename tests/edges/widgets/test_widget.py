"""Widgets: what their visitors may ask and read, and nothing else; who is told what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from agents import models
from agents.admin.widget_page import text_colour
from agents.chat.agents.widgets import parse_origin, visitor_scope
from rag.core.errors import InvalidInputError
from tests.edges.admin_client import at, client_of, page
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import CITED, OPEN, AgentWorld, world

__all__ = ["world"]
ANNA, BERT = "a" * 64, "b" * 64
SITE = "https://shop.example"


def make_widget(agent: models.Agent, **values: Any) -> models.Widget:
    return models.Widget.objects.create(agent=agent, name="Help", origins=[SITE], **values)


def visit(widget: models.Widget, secret: str = ANNA, **headers: str) -> KeyClient:
    client = KeyClient()
    client.defaults["HTTP_X_CITABLE_VISITOR"] = f"{widget.key}:{secret}"
    client.defaults |= headers
    return client


@pytest.fixture
def open_agent(world: AgentWorld) -> AgentWorld:
    """The agent is public, and so is one of two stores."""
    world.agent.is_public, world.store.is_public = True, True
    world.agent.save()
    world.store.save()
    hidden = StoreFactory(owner=world.user, slug="salaries", name="Salaries")
    publish(FileFactory(store=hidden, name="pay.txt"), "The pump team earns 5000 a month.")
    world.use(CITED)
    return world


def test_a_visitor_reads_their_own_conversation_and_nobody_elses(open_agent: AgentWorld) -> None:
    widget = make_widget(open_agent.agent)
    open_agent.scope = visitor_scope(widget=widget, secret=ANNA)
    told = open_agent.ask("How often is the pump serviced?")
    assert told.row.outcome == "answered"
    key = told.row.session.key
    anna = visit(widget)
    assert [one["id"] for one in ok(anna.get("/api/sessions"))["results"]] == [str(key)]
    (_, answer) = ok(anna.get(f"/api/sessions/{key}/messages"))
    quote = ok(anna.get(f"/api/quotes/{answer['id']}/1"))
    assert quote["file_name"] == "pump manual.txt"
    ok(anna.send("patch", f"/api/messages/{answer['id']}", {"feedback": 1}))
    error_of(anna.send("patch", f"/api/sessions/{key}", {"title": "x"}), 403)
    others = [
        visit(widget, BERT),
        visit(make_widget(open_agent.agent)),
        client_for(open_agent.user),
        client_for(UserFactory(is_superuser=True)),
    ]
    for other in others:
        assert ok(other.get("/api/sessions"))["results"] == []
        error_of(other.get(f"/api/sessions/{key}/messages"), 404)
        error_of(other.get(f"/api/quotes/{answer['id']}/1"), 404)
        error_of(other.get(f"/api/agents/desk/chat/{answer['id']}"), 404)
    widget.delete()
    assert not models.Session.objects.filter(key=key).exists()


def test_visitors_see_what_is_public_and_what_their_group_only_reads(
    open_agent: AgentWorld,
) -> None:
    group = GroupFactory()
    hidden = open_agent.store.__class__.objects.get(slug="salaries")
    hidden.reader_groups.add(group)
    asked = "What does the pump team earn?"

    def seen(**values: Any) -> set[str]:
        widget = make_widget(open_agent.agent, **values)
        open_agent.scope = visitor_scope(widget=widget, secret=ANNA)
        told = open_agent.ask(asked)
        return {one["source"]["name"] for one in told.row.sources}

    assert "pay.txt" not in seen()
    assert "pay.txt" in seen(group=group)
    # Whoever may change something sees more than readers do.
    open_agent.store.editor_groups.add(group)
    assert "pay.txt" not in seen(group=group)


def test_a_visitors_key_opens_nothing_else(open_agent: AgentWorld) -> None:
    models.Agent.objects.create(name="other", is_public=True, config=dict(OPEN))
    widget = make_widget(open_agent.agent)
    anna = visit(widget)
    for address in ("/api/stores", "/api/agents", "/api/memories", "/api/usage"):
        error_of(anna.get(address), 401)
    assert anna.send("post", "/api/rag/ask", {"question": "pump"}).status_code == 401
    error_of(anna.get("/api/agents/other/suggestions"), 404)
    error_of(anna.send("post", "/api/agents/other/chat", {"message": "pump"}), 404)
    body = {"message": "pump", "context": {"urls": ["http://127.0.0.1/"]}}
    error_of(anna.send("post", "/api/agents/desk/chat", body), 403)
    ok(anna.get("/api/agents/desk/suggestions"))
    own = visit(widget, HTTP_ORIGIN="http://testserver")
    ok(own.get("/api/sessions"))
    foreign = visit(widget, HTTP_ORIGIN=SITE)
    assert SITE in error_of(foreign.get("/api/sessions"), 403)["message"]
    for key, secret in (("wk_unknown", ANNA), (widget.key, "short"), (widget.key, "")):
        stranger = visit(models.Widget(key=key), secret)
        error_of(stranger.get("/api/sessions"), 401)
    widget.is_enabled = False
    widget.save()
    error_of(anna.get("/api/sessions"), 401)


def test_an_address_may_ask_so_often(open_agent: AgentWorld) -> None:
    widget = make_widget(open_agent.agent, requests_per_minute=1)
    anna = visit(widget)
    ok(anna.get("/api/sessions"))
    refused = visit(widget, BERT).get("/api/sessions")
    assert error_of(refused, 429) and refused["Retry-After"]
    ok(visit(widget, REMOTE_ADDR="203.0.113.9").get("/api/sessions"))
    ok(visit(make_widget(open_agent.agent)).get("/api/sessions"))


@pytest.mark.django_db
def test_the_page_may_be_framed_by_its_origins_alone_and_the_loader_says_so() -> None:
    agent = models.Agent.objects.create(name="desk", is_public=True)
    widget = make_widget(agent, colour="#ffee00")
    shown = Client().get(f"/widget/{widget.key}?lang=zh-hans")
    policy = shown["Content-Security-Policy"]
    assert policy.endswith(f"frame-ancestors {SITE}") and "unsafe" not in policy
    assert "X-Frame-Options" not in shown and 'lang="zh-hans"' in shown.content.decode()
    assert not shown.cookies
    widget.origins = []
    widget.save()
    alone = Client().get(f"/widget/{widget.key}")
    assert "frame-ancestors 'none'" in alone["Content-Security-Policy"]
    loader = Client().get(f"/widget/{widget.key}.js")
    body = loader.content.decode()
    told = json.loads(body.split("const settings = ")[1].split(";\n")[0])
    assert told["origins"] == [] and told["page"].endswith(f"/widget/{widget.key}")
    assert told["on_accent"] == "#000000" and set(told["texts"]) == {"en", "zh-hans"}
    assert loader["Content-Type"].startswith("text/javascript")
    gone = Client().get("/widget/wk_none.js")
    assert gone.status_code == 200 and gone.content.decode().startswith("console.error(")
    assert Client().get("/widget/wk_none").status_code == 404


@pytest.mark.django_db
def test_only_an_administrator_opens_an_agent_to_everybody() -> None:
    agent = models.Agent.objects.create(name="desk")
    form = {
        "name": "Help",
        "agent": agent.pk,
        "origins": " https://Shop.example/\r\n\r\nhttps://münchen.example:443\r\n",
        "colour": "#123456",
        "requests_per_minute": 60,
        "is_enabled": "on",
    }
    editor = UserFactory(permissions=["add_widget", "view_widget"])
    assert client_of(editor).post(at("agents_widget_add"), form).status_code == 403
    client = client_of(UserFactory(is_superuser=True))
    refused = client.post(at("agents_widget_add"), form)
    assert "Visitors may not ask the agent" in refused.content.decode()
    agent.is_public = True
    agent.save()
    group = GroupFactory(name="staff")
    agent.editor_groups.add(group)
    refused = client.post(at("agents_widget_add"), form | {"group": group.pk})
    assert "may change stores" in refused.content.decode()
    refused = client.post(at("agents_widget_add"), form | {"origins": "https://*.example"})
    assert "is no origin" in refused.content.decode()
    assert client.post(at("agents_widget_add"), form).status_code == 302
    widget = models.Widget.objects.get()
    assert widget.origins == [SITE, "https://xn--mnchen-3ya.example"]
    shown = page(client, "agents_widget_change", widget.pk)
    line = f"&lt;script async src=&quot;http://testserver/widget/{widget.key}.js&quot;&gt;"
    assert line in shown and 'src="data:image/svg+xml;base64,' in shown


@pytest.mark.parametrize(
    "text",
    ["", "shop.example", "ftp://a.example", "https://a.example/x", "https://a b", "https://u@a.b"],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_origin(text)


def test_a_text_can_be_read_on_every_colour() -> None:
    assert [text_colour(one) for one in ("#000000", "#6d28d9", "#ffffff", "#ffd400")] == [
        "#ffffff",
        "#ffffff",
        "#000000",
        "#000000",
    ]
