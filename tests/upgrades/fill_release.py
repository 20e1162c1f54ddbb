"""Fills an installation by the code of whatever release it lies beside: run there, not here.

Only commands and addresses that every release has: it must not import what a later one renamed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client

FLOW = """\
name: upgraded
nodes:
  - {name: find, type: rag, config: {data_sources: [{type: vector_store, collection: demo}]}}
edges:
  - {from: find, to: END}
entry_node: find
"""


def send(client: Client, method: str, path: str, body: object) -> dict[str, object]:
    """Return the JSON of an address that must answer."""
    answer = getattr(client, method)(path, json.dumps(body), content_type="application/json")
    assert answer.status_code < 300, (path, answer.status_code, answer.content[:500])
    told: dict[str, object] = json.loads(answer.content) if answer.content else {}
    return told


def main() -> None:
    """Make the demo store, a conversation of two answers, a memory, and a run of a flow."""
    call_command("rag_demo")
    people = get_user_model().objects
    person = people.filter(is_superuser=True).first() or people.create_superuser("old", "", "old")
    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    asked = {"message": "How long do I ventilate after a UV lamp breaks?", "stream": False}
    first = send(client, "post", "/api/agents/rag/chat", asked)
    again = {**asked, "message": "And who is told?", "session": first["session"]}
    send(client, "post", "/api/agents/rag/chat", again)
    send(client, "post", "/api/memories", {"text": "My lamp is an HX-400."})
    folder = Path(os.environ["CITABLE_VAR"]) / "flow"
    folder.mkdir(exist_ok=True)
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    call_command("flow_import", str(folder / "flow.yaml"))
    call_command("flow_run", "upgraded", "How long do I ventilate?")


if __name__ == "__main__":
    main()
