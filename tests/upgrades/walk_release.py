"""Walks an installation by every path that has data: lists, details, search, answers, doctor."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from rag.services.access import create_key
from rag.services.operations import run_checks

QUESTION = "How long do I ventilate after a UV lamp breaks?"
LISTS = ("stores", "files", "chunks", "sessions", "messages", "memories", "agents", "flows")


def told(client: Client, path: str, body: object = None) -> Any:
    """Return the JSON of an address that must answer."""
    answer = (
        client.get(path)
        if body is None
        else client.post(path, json.dumps(body), content_type="application/json")
    )
    assert answer.status_code < 300, (path, answer.status_code, answer.content[:500])
    return json.loads(answer.content)


def walk_api(client: Client) -> list[str]:
    """Return what is wrong with what the API tells of the old rows."""
    wrong = []
    for name in LISTS:
        if not told(client, f"/api/{name}")["results"]:
            wrong.append(f"/api/{name} is empty")
    for session in told(client, "/api/sessions")["results"]:
        for turn in told(client, f"/api/sessions/{session['id']}/messages"):
            if not turn["content"] or "[…]" in turn["content"]:
                wrong.append(f"the turn {turn['id']} has lost words")
            told(client, f"/api/messages/{turn['id']}/trace")
    found = told(client, "/api/rag/retrieve", {"query": QUESTION, "stores": ["demo"]})
    asked = {"message": QUESTION, "stream": False}
    answer = told(client, "/api/agents/rag/chat", asked)
    if "30" not in json.dumps(found) or not answer["citations"]:
        wrong.append("the old store is not found, or not cited")
    told(client, "/api/flows/upgraded/runs")
    if not told(client, "/api/sessions?q=ventilate")["results"]:
        wrong.append("the old conversation is not found by its question")
    if not told(client, "/api/consents/agents/rag")["is_granted"]:
        wrong.append("the old agent needs consent, though it calls nobody")
    wrong += walk_openai()
    return wrong


def walk_openai() -> list[str]:
    """Return what is wrong with an answer by OpenAI's protocol, with a new key."""
    person = get_user_model().objects.filter(is_superuser=True)[0]
    _, secret = create_key(user=person, name="walk", rights=("read",))
    client = Client(headers={"host": "localhost", "authorization": f"Bearer {secret}"})
    turns = [{"role": "user", "content": QUESTION}]
    answer = told(client, "/v1/chat/completions", {"model": "rag", "messages": turns})
    return [] if "25" in json.dumps(answer["choices"]) else ["/v1 does not quote the old store"]


def walk_admin(client: Client) -> list[str]:
    """Return the pages of the admin that do not show the old rows."""
    wrong = []
    for model in (one for one in apps.get_models() if one in admin.site._registry):
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        pages = [reverse(f"admin:{name}_changelist")]
        row = model._default_manager.order_by("-pk").first()
        pages += [reverse(f"admin:{name}_change", args=[row.pk])] if row is not None else []
        wrong += [page for page in pages if client.get(page, follow=True).status_code != 200]
    return wrong


def main() -> None:
    """Print what is wrong, and end with 1 where anything is."""
    call_command("migrate", verbosity=0)
    client = Client(headers={"host": "localhost"})
    client.force_login(get_user_model().objects.filter(is_superuser=True)[0])
    wrong = walk_api(client) + walk_admin(client)
    # Reindexing what a newer release reads otherwise is the operator's, as CHANGELOG says.
    findings = [one for _, _, found in run_checks() for one in found if one.level == "error"]
    wrong += [f"{one.check}: {one.what}" for one in findings if one.check != "jobs"]
    sys.stdout.write("\n".join(wrong or ["nothing is wrong"]) + "\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
