"""Agents and conversations in the admin: forms that services accept, rows for whom they are."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.forms import ChoiceField
from django.test import Client

from agents import models
from agents.admin import config_labels as config_texts
from agents.admin.agent_form import CONFIG_FIELDS, SCHEMA, AgentForm
from agents.core.agent_config import AgentConfig
from tests.edges.admin_client import at, client_of, page
from tests.edges.catalogue import is_translated
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
EDITOR = ("view_agent", "add_agent", "change_agent", "delete_agent")


def looker() -> Any:
    """Return somebody who may look; sessions of the site itself have the same codenames."""
    user: Any = UserFactory()
    names = [f"view_{name}" for name in ("agent", "session", "message")]
    rights = Permission.objects.filter(content_type__app_label="agents", codename__in=names)
    user.user_permissions.set(rights)
    return user


@pytest.fixture
def editor() -> Any:
    return UserFactory(permissions=EDITOR)


@pytest.fixture
def client(editor: Any) -> Client:
    return client_of(editor)


def form_of(client: Client, *path: Any) -> dict[str, Any]:
    """Return what a browser would send of a form that nobody has touched."""
    name = "agents_agent_change" if path else "agents_agent_add"
    response = client.get(at(name, *path))
    assert response.status_code == 200
    form = response.context["adminform"].form
    values = {}
    for field in form:
        value = field.value()
        if field.field.widget.is_hidden or value in (None, False, "", []):
            continue
        values[field.html_name] = "on" if value is True else value
    return values


def test_an_agent_is_made_with_defaults_and_belongs_to_its_maker(
    client: Client, editor: Any
) -> None:
    store = StoreFactory(owner=editor)
    values = {**form_of(client), "name": "desk", "stores": [store.pk]}
    values |= {"config_default_top_k": "9", "config_rerank": "mixed", "config_tools": "grade\n"}
    response = client.post(at("agents_agent_add"), values)
    assert response.status_code == 302, response.context["errors"]
    agent = models.Agent.objects.get(name="desk")
    assert agent.owner == editor and list(agent.stores.all()) == [store]
    # Only what differs from the defaults is stored.
    assert agent.config == {"default_top_k": 9, "rerank": "mixed", "tools": ["grade"]}


def test_no_choice_is_called_as_in_the_code(client: Client) -> None:
    names = {field["default"] for field in SCHEMA["properties"].values() if "enum" in field}
    named = {}
    for field in (AgentForm.base_fields[name] for name in CONFIG_FIELDS):
        if isinstance(field, ChoiceField):
            named |= {value: str(text) for value, text in field.choices if value}
    assert names <= set(named)
    assert {value for value, text in named.items() if value == text} == set()
    assert named["hybrid"] == "hybrid search"
    chosen = {**form_of(client), "name": "desk", "config_search_mode": "keyword"}
    assert client.post(at("agents_agent_add"), chosen).status_code == 302
    assert models.Agent.objects.get(name="desk").config["search_mode"] == "keyword"


def test_an_untouched_form_changes_nothing(client: Client, editor: Any) -> None:
    config = {"min_confidence_score": 0.1, "enable_rerank": True, "search_mode": "auto"}
    agent = models.Agent.objects.create(name="desk", owner=editor, config=config, prompt="Be kind.")
    response = client.post(at("agents_agent_change", agent.pk), form_of(client, agent.pk))
    assert response.status_code == 302, response.context["errors"]
    agent.refresh_from_db()
    assert agent.config == config and agent.prompt == "Be kind." and agent.owner == editor


def test_the_second_of_two_who_save_an_agent_is_told_what_the_first_one_changed(
    client: Client, editor: Any
) -> None:
    agent = models.Agent.objects.create(name="desk", owner=editor, config={"default_top_k": 4})
    seen = re.search(r'name="seen" value="([^"]*)"', page(client, "agents_agent_change", agent.pk))
    assert seen
    typed = {**form_of(client, agent.pk), "seen": html.unescape(seen[1]), "prompt": "Be kind."}
    other = client_of(UserFactory(is_superuser=True, username="anna"))
    values = {**form_of(other, agent.pk), "config_default_top_k": "7"}
    assert other.post(at("agents_agent_change", agent.pk), values).status_code == 302
    refused = client.post(at("agents_agent_change", agent.pk), typed)
    assert refused.status_code == 200
    said = dict(refused.context["adminform"].form.errors)
    assert list(said) == ["config_default_top_k", "__all__"]
    assert "from “4” to “7”, which stands here now" in said["config_default_top_k"][0]
    assert said["__all__"][0].startswith("anna changed this meanwhile")
    agent.refresh_from_db()
    assert (agent.config["default_top_k"], agent.prompt) == (7, "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("config_default_top_k", "0"),
        ("config_min_confidence_score", "2"),
        ("config_search_mode", "magic"),
        ("config_sources", "[1]"),
        ("temperature", "9"),
    ],
)
def test_a_wrong_value_is_told_beside_its_field(client: Client, field: str, value: str) -> None:
    values = {**form_of(client), "name": "desk", field: value}
    response = client.post(at("agents_agent_add"), values)
    assert response.status_code == 200
    assert field in response.context["adminform"].form.errors
    assert not models.Agent.objects.filter(name="desk").exists()


def test_a_model_that_is_not_there_is_a_sentence_and_nothing_is_saved(client: Client) -> None:
    values = {**form_of(client), "name": "desk", "model": "nobody:knows"}
    response = client.post(at("agents_agent_add"), values, follow=True)
    assert "Unknown chat provider “nobody”" in response.content.decode()
    assert not models.Agent.objects.filter(name="desk").exists()


def test_every_value_of_the_config_is_a_field_with_its_default() -> None:
    assert {name.removeprefix("config_") for name in CONFIG_FIELDS} == set(AgentConfig().as_dict())
    form = AgentForm()
    assert form.initial["config_default_top_k"] == 5


def test_every_value_of_the_config_can_be_said_in_every_language() -> None:
    told = SCHEMA["properties"]
    assert set(told) == set(config_texts._LABELS)
    assert [
        one["description"] for one in told.values() if not is_translated(one["description"])
    ] == []


def test_readers_see_no_prompt_and_change_nothing(editor: Any) -> None:
    group = GroupFactory()
    agent = models.Agent.objects.create(name="desk", owner=UserFactory(), prompt="SECRET PROMPT")
    agent.reader_groups.add(group)
    reader = client_of(UserFactory(permissions=EDITOR, groups=[group]))
    shown = page(reader, "agents_agent_change", agent.pk)
    assert "SECRET PROMPT" not in shown and "reader_groups" not in shown
    assert reader.post(at("agents_agent_change", agent.pk), {"name": "x"}).status_code == 403
    assert reader.post(at("agents_agent_delete", agent.pk), {"post": "yes"}).status_code == 403
    stranger = client_of(UserFactory(permissions=EDITOR))
    assert "desk" not in re.sub("<[^>]*>", "", page(stranger, "agents_agent_changelist", q="desk"))
    assert stranger.get(at("agents_agent_change", agent.pk)).status_code == 302
    assert client_of(UserFactory()).get(at("agents_agent_changelist")).status_code == 403


def test_only_readable_stores_are_offered_and_taken(client: Client) -> None:
    hidden = StoreFactory(name="hidden store")
    assert "hidden store" not in page(client, "agents_agent_add")
    values = {**form_of(client), "name": "desk", "stores": [hidden.pk]}
    response = client.post(at("agents_agent_add"), values)
    assert "stores" in response.context["adminform"].form.errors


def test_a_built_in_agent_stays(client: Client) -> None:
    agent = models.Agent.objects.create(name="desk", is_builtin=True)
    boss = client_of(UserFactory(is_superuser=True))
    response = boss.post(at("agents_agent_delete", agent.pk), {"post": "yes"}, follow=True)
    assert "is built in" in response.content.decode()
    boss.post(
        at("agents_agent_changelist"),
        {
            "action": "delete_selected",
            "_selected_action": [agent.pk],
            "post": "yes",
        },
    )
    assert models.Agent.objects.filter(pk=agent.pk).exists()


def test_conversations_are_for_their_people_and_operators_and_only_to_look_at() -> None:
    user = looker()
    session = models.Session.objects.create(user=user, title="My <b>question</b>")
    message = models.Message.objects.create(
        session=session,
        role="assistant",
        content="<script>alert(1)</script>",
        status="error",
        feedback=-1,
        error={"message": "“{name}” holds no text.", "params": {"name": "a"}},
        citations=[{"number": 1, "verdict": "altered", "quote": "<i>q</i>", "file_name": "f"}],
        sources=[{"content": "seen", "doc_id": "doc_01", "file_name": "f"}],
    )
    own = client_of(user)
    shown = page(own, "agents_message_change", message.pk)
    assert "&lt;script&gt;alert(1)" in shown and "<i>q</i>" not in shown
    assert "“a” holds no text." in shown and "altered" in shown
    assert "My &lt;b&gt;question" in page(own, "agents_session_change", session.pk)
    assert "1 altered" in page(own, "agents_message_changelist")
    other = client_of(looker())
    assert other.get(at("agents_session_change", session.pk)).status_code == 302
    assert "question" not in page(other, "agents_session_changelist", q="question").split("<main")[
        -1
    ].replace('value="question"', "")
    assert other.get(at("agents_message_change", message.pk)).status_code == 302
    boss = client_of(UserFactory(is_superuser=True))
    assert boss.get(at("agents_message_change", message.pk)).status_code == 200
    for name, row in (("session", session), ("message", message)):
        assert boss.get(at(f"agents_{name}_delete", row.pk)).status_code == 403
        assert boss.get(at(f"agents_{name}_add")).status_code == 403


def test_the_words_of_a_passage_go_with_it() -> None:
    user = looker()
    kept, gone = publish(
        FileFactory(store=StoreFactory(owner=user)), "the kept words", "the lost words"
    )
    session = models.Session.objects.create(user=user, title="t")
    message = models.Message.objects.create(
        session=session,
        role="assistant",
        content="a",
        status="done",
        sources=[
            {"content": chunk.text, "doc_id": "d", "chunk_id": chunk.pk} for chunk in (kept, gone)
        ],
        citations=[{"number": 1, "quote": gone.text, "verdict": "verified", "chunk_id": gone.pk}],
    )
    client = client_of(user)
    before = page(client, "agents_message_change", message.pk)
    assert before.count("the lost words") == 2 and "the kept words" in before
    gone.delete()
    after = page(client, "agents_message_change", message.pk)
    assert "the lost words" not in after and "the kept words" in after


def test_lists_take_as_many_queries_for_thirty_rows_as_for_one(
    django_assert_max_num_queries: Any, editor: Any
) -> None:
    user = looker()
    for number in range(30):
        session = models.Session.objects.create(user=user, title=f"t{number}")
        models.Message.objects.create(session=session, role="user", content="q")
        models.Agent.objects.create(name=f"a{number}", owner=user)
    client = client_of(user)
    for name in ("agent", "session", "message"):
        page(client, f"agents_{name}_changelist")
        with django_assert_max_num_queries(14):
            page(client, f"agents_{name}_changelist")
