"""What a page sends along with a message, over HTTP: checked, kept, and not shown as instruction."""

from __future__ import annotations

from typing import Any

import pytest

from agents import models
from tests.edges.api_client import client_for, ok
from tests.integration.agent_world import AgentWorld, world

__all__ = ["world"]
TESTED = "The valve is tested every 7 weeks."
CITED = f'<cite doc_id="doc_01" quote="{TESTED}">Every 7 weeks.</cite>'


def asked(world: AgentWorld, context: Any) -> Any:
    body = {"message": "How often is it tested?", "stream": False, "context": context}
    return client_for(world.user).send("post", "/api/agents/desk/chat", body)


def test_a_selection_is_answered_from_and_its_citation_opens(world: AgentWorld) -> None:
    chat = world.use(CITED)
    context = {
        "text": TESTED,
        "title": "Valves",
        "entities": ["Valve 7", {"name": "P1", "id": "9"}],
    }
    told = ok(asked(world, context))
    assert (told["answer"], told["outcome"]) == ("Every 7 weeks.[1]", "answered")
    client = client_for(world.user)
    opened = ok(client.get(f"/api/messages/{told['message']}/citations/1"))
    assert (opened["text"], opened["start"], opened["end"]) == (TESTED, 0, len(TESTED))
    prompt = chat.requests[0].messages[-1].content
    assert "- Valve 7\n- P1 (id: 9)" in prompt
    again = {"regenerate": told["message"], "stream": False}
    told = ok(client.send("post", "/api/agents/desk/chat", again))
    assert told["citations"][0]["verdict"] == "verified"
    bare = {"regenerate": told["message"], "stream": False, "context": {"text": "Nothing."}}
    told = ok(client.send("post", "/api/agents/desk/chat", bare))
    assert told["citations"][0]["verdict"] == "unknown", "a context that is given takes its place"
    shown = ok(client.get(f"/api/messages/{told['message']}/citations/1"))
    assert (shown["text"], shown["start"]) == ("Nothing.", None)


@pytest.mark.parametrize(
    "context",
    [
        {"text": 5},
        {"text": "x" * 50_001},
        {"urls": ["http://a.example"] * 6},
        {"urls": [""]},
        {"entities": [{"name": {}}]},
        {"entities": ["x"] * 51},
        {"html": "x"},
        "text",
        [],
    ],
)
def test_what_does_not_fit_is_refused(world: AgentWorld, context: Any) -> None:
    assert asked(world, context).status_code in (400, 422)
    assert models.Message.objects.count() == 0


def test_an_address_that_may_not_be_fetched_is_a_notice(world: AgentWorld) -> None:
    world.use("Nothing is cited.")
    told = ok(asked(world, {"urls": ["http://127.0.0.1:9/x"]}))
    (notice,) = [one for one in told["notices"] if one["step"] == "page"]
    assert "127.0.0.1" in notice["error"]["message"] and told["status"] == "done"
