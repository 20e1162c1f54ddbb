"""Concurrent edits: two people with one form open, and forms sent twice at once."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents import models as agent_models
from agents.flows.definition.archive import FlowFiles
from agents.flows.versions.versions import save_flow_version
from rag import models
from rag.services.access.api_keys import scope_of
from rag.services.stores import lifecycle as stores
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
from tests.factories import GroupFactory, StoreFactory, UserFactory
from tests.integration.golden_world import golden, golden_store

pytestmark = pytest.mark.django_db
FLOW = """\
name: desk
nodes:
  - {name: answer, type: agent, config: {prompt: answer.md}}
edges:
  - {from: answer, to: END}
entry_node: answer
"""
PROMPTS = {"answer.md": "Write the answer."}


@pytest.fixture
def anna() -> Client:
    return client_of(UserFactory(is_superuser=True, username="anna"))


@pytest.fixture
def bert() -> Client:
    return client_of(UserFactory(is_superuser=True, username="bert"))


def carried(shown: str) -> dict[str, str]:
    """Return what a page's forms say of what they showed."""
    found = re.findall(r'name="([\w-]*seen)"(?: value="([^"]*)")?', shown)
    return {name: html.unescape(value) for name, value in found}


def opened(client: Client, name: str, pk: int) -> dict[str, str]:
    return carried(page(client, f"{name}_change", pk))


def errors(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    return dict(response.context["adminform"].form.errors)


def question(row: models.GoldenQuestion, *targets: dict[str, Any], **more: Any) -> dict[str, Any]:
    n_had = sum("id" in target for target in targets)
    data = {
        "query": row.query,
        "note": row.note,
        "enabled": "on",
        "targets-TOTAL_FORMS": len(targets),
        "targets-INITIAL_FORMS": n_had,
        **more,
    }
    for n, target in enumerate(targets):
        data |= {f"targets-{n}-{name}": value for name, value in target.items()}
    return data


def target(row: models.GoldenTarget, **more: Any) -> dict[str, Any]:
    return {
        "id": row.pk,
        "chunk": row.chunk_id or "",
        "file": row.file_id,
        "grade": row.grade,
        **more,
    }


def test_the_second_who_saves_a_file_is_told_what_the_first_one_changed(
    anna: Client, bert: Client
) -> None:
    _, chunks = golden_store()
    file, group = chunks[0].file, GroupFactory(name="Board")
    url = at("rag_file_change", file.pk)
    seen = opened(bert, "rag_file", file.pk)
    hers = {
        "name": "guide.txt",
        "content_type": "document",
        "metadata": '{"year": 2024}',
        "restricted_to": [group.pk],
        **opened(anna, "rag_file", file.pk),
    }
    assert anna.post(url, hers).status_code == 302
    typed = {"name": "manual.txt", "content_type": "document", "metadata": "{}", **seen}
    refused = bert.post(url, typed)
    said = errors(refused)
    assert set(said) == {"metadata", "restricted_to", "__all__"}
    assert 'from “–” to “{"year": 2024}”, which stands here now' in said["metadata"][0]
    assert "from “–” to “Board”, which" in said["restricted_to"][0]
    assert said["__all__"][0].startswith("anna changed this meanwhile (")
    file.refresh_from_db()
    assert file.name == "guide.txt"
    shown = refused.content.decode()
    assert "&quot;year&quot;: 2024" in shown
    again = {**hers, "name": "manual.txt", **carried(shown)}
    assert bert.post(url, again).status_code == 302
    file.refresh_from_db()
    assert (file.name, file.metadata) == ("manual.txt", {"year": 2024})
    assert list(file.restricted_to.all()) == [group]


def test_what_a_worker_writes_of_a_file_is_no_change_of_its_form(bert: Client) -> None:
    _, chunks = golden_store()
    file = chunks[0].file
    typed = {"name": "manual.txt", "content_type": "document", "metadata": "{}"}
    seen = opened(bert, "rag_file", file.pk)
    models.File.objects.filter(pk=file.pk).update(status="processing", n_chunks=99)
    assert bert.post(at("rag_file_change", file.pk), {**typed, **seen}).status_code == 302


def test_the_second_who_saves_a_question_is_told_of_its_words_and_grades(
    anna: Client, bert: Client
) -> None:
    store, chunks = golden_store()
    row = golden(store, "How long?", [chunks[0]])
    one = row.targets.get()
    url, seen = at("rag_goldenquestion_change", row.pk), opened(bert, "rag_goldenquestion", row.pk)
    assert set(seen) >= {"seen", "targets-0-seen"}
    hers = question(row, target(one, grade=3), **opened(anna, "rag_goldenquestion", row.pk))
    assert anna.post(url, {**hers, "query": "How long is it?"}).status_code == 302
    typed = question(row, target(one, grade=2), **seen) | {"note": "mine"}
    refused = bert.post(url, typed)
    assert "from “How long?” to “How long is it?”, which stands" in errors(refused)["query"][0]
    shown = words(refused.content.decode())
    assert "from “1” to “3”; what you typed stands here still" in shown
    row.refresh_from_db()
    assert (row.query, row.note) == ("How long is it?", "")
    again = typed | {"query": "How long is it?"} | carried(refused.content.decode())
    assert bert.post(url, again).status_code == 302
    assert (row.targets.get().grade, models.GoldenQuestion.objects.get().note) == (2, "mine")


def test_passages_that_came_and_went_meanwhile_are_told_and_shown(
    anna: Client, bert: Client
) -> None:
    store, chunks = golden_store()
    row = golden(store, "How long?", chunks[:2])
    gone, kept = row.targets.order_by("pk")
    url, seen = at("rag_goldenquestion_change", row.pk), opened(bert, "rag_goldenquestion", row.pk)
    hers = question(
        row,
        target(gone, DELETE="on"),
        target(kept),
        {"chunk": chunks[2].pk, "grade": 3},
        **opened(anna, "rag_goldenquestion", row.pk),
    )
    assert anna.post(url, hers).status_code == 302
    new = {"chunk": chunks[3].pk, "file": "", "grade": 1}
    refused = bert.post(url, question(row, target(gone), target(kept, grade=2), new, **seen))
    shown = refused.content.decode()
    assert "added passages (1) or took some away (1)" in words(shown)
    came = row.targets.get(chunk=chunks[2])
    assert f'name="targets-0-id" value="{came.pk}"' in shown
    assert f'name="targets-1-id" value="{kept.pk}"' in shown
    assert 'name="targets-INITIAL_FORMS" value="2"' in shown
    assert 'name="targets-TOTAL_FORMS" value="3"' in shown
    again = question(row, target(came), target(kept, grade=2), new, **carried(shown))
    assert bert.post(url, again).status_code == 302
    assert dict(row.targets.values_list("chunk", "grade")) == {
        chunks[1].pk: 2,
        chunks[2].pk: 3,
        chunks[3].pk: 1,
    }


def test_the_same_passage_from_both_is_expected_once(anna: Client, bert: Client) -> None:
    store, chunks = golden_store()
    row = golden(store, "How long?")
    url = at("rag_goldenquestion_change", row.pk)
    data = question(row, {"chunk": chunks[0].pk, "file": "", "grade": 1})
    assert anna.post(url, data).status_code == 302
    told = words(bert.post(url, data).content.decode())
    assert "This is expected already." in told and "rag_golden" not in told
    assert row.targets.count() == 1


@pytest.mark.parametrize("seen", ["[]", "{", '{"chunk": {"a": [1]}, "grade": [2]}'])
def test_nonsense_in_the_rows_of_a_question_is_no_crash(bert: Client, seen: str) -> None:
    store, chunks = golden_store()
    row = golden(store, "How long?", [chunks[0]])
    url, one = at("rag_goldenquestion_change", row.pk), row.targets.get()
    for data in (
        question(row, target(one, seen=seen)),
        question(row, target(one, id="x", seen=seen)),
        question(row, target(one, id=""), target(one)),
        question(row) | {"targets-TOTAL_FORMS": "x", "targets-INITIAL_FORMS": "9" * 30},
    ):
        assert bert.post(url, data).status_code in (200, 302)
    assert row.targets.count() == 1


def test_the_second_who_saves_a_flow_s_settings_is_told(anna: Client, bert: Client) -> None:
    flow = agent_models.Flow.objects.create(name="desk", title="Desk")
    url, seen = at("agents_flow_change", flow.pk), opened(bert, "agents_flow", flow.pk)
    hers = {"title": "Front desk", "is_public": "on", **opened(anna, "agents_flow", flow.pk)}
    assert anna.post(url, hers).status_code == 302
    said = errors(bert.post(url, {"title": "Help desk", **seen}))
    assert "from “Desk” to “Front desk”; what you typed" in said["title"][0]
    assert "from “no” to “yes”, which stands here now" in said["is_public"][0]
    assert said["__all__"][0].startswith("anna changed this meanwhile")
    flow.refresh_from_db()
    assert (flow.title, flow.is_public) == ("Front desk", True)


def test_the_second_who_saves_a_flow_s_yaml_is_told_and_may_save_after_it(
    anna: Client, bert: Client
) -> None:
    first = save_flow_version(
        files=FlowFiles(FLOW, PROMPTS), scope=scope_of(User.objects.get(username="anna"))
    )
    url = at("agents_flow_edit", first.flow_id)

    def edit(client: Client, prompt: str, action: str = "save", **more: Any) -> Any:
        values = {"yaml": FLOW, "path": ["answer.md"], "text": [prompt], "action": action}
        return client.post(url, {**values, **more})

    seen = carried(page(bert, "agents_flow_edit", first.flow_id))
    assert seen == {"seen": "1"}
    assert edit(anna, "Write a letter.", **seen).status_code == 302
    refused = edit(bert, "Write a poem.", action="activate", note="mine", **seen)
    shown = refused.content.decode()
    assert refused.status_code == 422 and first.flow.versions.count() == 2
    assert "anna saved version 2 meanwhile" in words(shown)
    assert "?old=1&amp;new=2" in shown and "Write a poem." in shown and 'value="mine"' in shown
    # Whoever typed the same is not bothered.
    assert edit(bert, "Write a letter.", **seen).status_code == 302
    assert carried(shown) == {"seen": "2"}
    assert edit(bert, "Write a poem.", **carried(shown)).status_code == 302
    newest = first.flow.versions.get(number=3)
    assert newest.prompts == {"answer.md": "Write a poem."}


def blind_once(monkeypatch: pytest.MonkeyPatch, of: Any, name: str) -> None:
    """Let a check see nothing the first time, as one that comes a moment too early."""
    real = getattr(of, name)
    calls: list[int] = []

    def check(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return real(*args, **kwargs) if len(calls) > 1 else None

    monkeypatch.setattr(of, name, check)


def test_a_question_that_was_made_at_this_very_moment_is_no_crash(
    bert: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = golden_store()
    golden(store, "How long?")
    blind_once(monkeypatch, models.GoldenQuestion, "validate_constraints")
    data = question(models.GoldenQuestion(query="How long?")) | {"store": store.pk}
    told = bert.post(at("rag_goldenquestion_add"), data)
    assert "has this question already" in words(told.content.decode())
    assert models.GoldenQuestion.objects.count() == 1


def test_a_store_that_was_made_at_this_very_moment_is_no_crash(
    bert: Client, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    StoreFactory(name="Handbooks", slug="books")
    blind_once(monkeypatch, models.Store, "validate_unique")
    data = {"name": "Handbooks", "max_tokens_per_chunk": 200, "max_overlap_tokens": 20}
    said = errors(bert.post(at("rag_store_add"), data))
    assert said == {"name": ["Store with this Name already exists."]}
    assert models.Store.objects.count() == 1
    assert stores.create_store(name="Other").slug == "other"


def test_a_user_who_was_made_at_this_very_moment_is_no_crash(
    bert: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind_once(monkeypatch, User, "validate_unique")
    password = {"password1": "a long-enough 1", "password2": "a long-enough 1"}
    said = errors(bert.post(at("auth_user_add"), {"username": "bert", **password}))
    assert list(said) == ["username"]
    assert User.objects.filter(username="bert").count() == 1
