"""What tests of flows over HTTP stand on: a reviewed flow, its script, people with keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.services.access.api_keys import create_key, scope_of
from tests.edges.api_client import KeyClient, client_for, ok
from tests.factories import UserFactory

RIGHTS = ("add_flow", "change_flow", "delete_flow")
FLOW = """\
name: desk
nodes:
  - {name: judge, type: agent, config: {prompt: judge.md}}
  - {name: review, type: human_review, config: {message: "Send this? {user_query}", decisions: [send, drop]}}
  - {name: answer, type: agent, config: {prompt: answer.md}}
edges:
  - {from: judge, to: review, condition: risk == "high"}
  - {from: judge, to: answer, condition: default}
  - {from: review, to: answer, condition: review_decision == "send"}
  - {from: review, to: END, condition: default}
  - {from: answer, to: END}
entry_node: judge
inputs: {region: where the person lives}
"""
PROMPTS = {
    "judge.md": 'Judge the risk as JSON {"risk": "high|low"}: {user_query}',
    "answer.md": "Write the answer for {region}.",
}
SCRIPT = """
answers:
  - {contains: [Judge the risk, danger], answer: {risk: high}}
  - {contains: [Judge the risk, slowly], answer: {risk: low}, delay_s: 30}
  - {contains: [Judge the risk, broken], error: it is down}
  - {contains: Judge the risk, answer: {risk: low}}
  - {contains: Write the answer, answer: "Take the stairs, not the lift."}
"""


@dataclass
class FlowDesk:
    """A flow of somebody, and whoever asks it."""

    flow: models.Flow
    owner: Any
    script: str

    def client(self, user: Any = None, **more: Any) -> KeyClient:
        return client_for(user or self.owner, **more)

    def run(self, message: str, user: Any = None, **body: Any) -> dict[str, Any]:
        """Run the flow to where it stands still, and return what the API says."""
        told: dict[str, Any] = ok(
            self.client(user).send("post", "/api/flows/desk/run", {"message": message, **body})
        )
        return told

    def path(self, told: dict[str, Any], verb: str = "") -> str:
        return f"/api/flows/desk/runs/{told['key']}{verb}"

    async def streamed(self, method: str, path: str, body: Any = None, **headers: str) -> str:
        """Return all that a stream sends to the owner."""
        _, secret = await sync_to_async(create_key)(user=self.owner, name="k", rights=["read"])
        return await streamed(secret, method, path, body, **headers)


async def streamed(secret: str, method: str, path: str, body: Any = None, **headers: str) -> str:
    """Return all that a stream sends.

    Only for streams: a view that waits in the client of async tests would wait for itself.
    """
    sent = {"authorization": f"Bearer {secret}", **headers}
    more = {"data": body, "content_type": "application/json"} if body else {}
    answer = await getattr(AsyncClient(), method)(path, headers=sent, **more)
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("text/event-stream")
    return b"".join([piece async for piece in answer.streaming_content]).decode()


@pytest.fixture
def flow_desk(db: None, tmp_path: Path, settings: Any, fresh_wiring: None) -> FlowDesk:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    settings.RAG = {**settings.RAG, "CHAT_MODEL": f"scripted:{script}"}
    owner = UserFactory(permissions=RIGHTS)
    scope = scope_of(owner)
    version = save_flow_version(files=FlowFiles(FLOW, PROMPTS), scope=scope)
    activate_version(version=version, scope=scope)
    return FlowDesk(version.flow, owner, str(script))
