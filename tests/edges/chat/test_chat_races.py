"""What happens to answers at the wrong moment, on a real server: two at once, deleted, revoked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from django.utils import timezone

from agents import models
from agents.runtime import worker
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.models import ApiKey, Budget
from rag.services.access.api_keys import create_key, revoke_key
from rag.services.usage.budgets import period_start
from tests.asgi_server import server_thread
from tests.integration.agent_world import CITED, AgentWorld, sse_events, world
from tests.integration.calling_model import Calling, call, calls

__all__ = ["world"]
ASKED = "How often is the pump serviced?"
WORDS = [f"word{number} " for number in range(300)]


@dataclass
class Endless:
    """A model that talks until it is stopped, and says then that it was."""

    id: str = "test:endless"
    n_said: int = 0
    n_stopped: int = 0

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        try:
            for word in WORDS:
                self.n_said += 1
                yield ChatReply(word, model=self.id)
                await asyncio.sleep(0.01)
        finally:
            self.n_stopped += 1


@dataclass
class Desk:
    """The world behind a server, and a key of its person."""

    world: AgentWorld
    url: str
    key: ApiKey
    secret: str

    def send(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.secret}"}
        return httpx2.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=30)

    def ask(self, message: str = ASKED, **body: Any) -> httpx2.Response:
        return self.send("post", "/api/agents/desk/chat", {"message": message, **body})

    def whole(self, message: str = ASKED, **body: Any) -> httpx2.Response:
        return self.ask(message, stream=False, **body)

    def heard(self, at_first_words: Callable[[str], None], **body: Any) -> list[Any]:
        """Ask, do something when the first words come, and return all events."""
        text, is_done = "", False
        headers = {"authorization": f"Bearer {self.secret}"}
        with httpx2.stream(
            "POST",
            f"{self.url}/api/agents/desk/chat",
            json={"message": ASKED, **body},
            headers=headers,
            timeout=30,
        ) as answer:
            for piece in answer.iter_text():
                text += piece
                if not is_done and "event: delta" in text:
                    is_done = True
                    at_first_words(sse_events(text)[0][2]["message"])
        return [one for one in sse_events(text) if one[1] != "ping"]


@pytest.fixture
def desk(world: AgentWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(worker, "HEARTBEAT_S", 0.1)
    key, secret = create_key(
        user=world.user, name="k", rights=["read", "write"], requests_per_minute=6000
    )
    with server_thread() as url:
        yield Desk(world, url, key, secret)


def test_of_many_who_ask_in_a_session_at_one_moment_one_goes_on(desk: Desk) -> None:
    desk.world.use(CITED)
    session = desk.whole().json()["session"]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda n: desk.whole(f"{ASKED} {n}", session=session), range(6)))
    codes = [answer.status_code for answer in found]
    assert codes.count(200) >= 1 and set(codes) <= {200, 409}, codes
    rows = models.Message.objects.filter(session__key=session)
    parents = [row.parent_id for row in rows]
    assert len(parents) == len(set(parents)), "no question stands beside another"
    assert (
        rows.filter(role="user").count()
        == rows.filter(role="assistant").count()
        == 1 + codes.count(200)
    )
    assert not rows.exclude(status="done").exists()


def test_a_session_that_is_deleted_ends_its_stream_and_model(desk: Desk) -> None:
    model = desk.world.use(Endless())

    def delete(key: str) -> None:
        session = models.Session.objects.get(messages__key=key)
        assert desk.send("delete", f"/api/sessions/{session.key}").status_code == 204

    events = desk.heard(delete)
    assert events[-1][1] == "stopped" and model.n_stopped == 1
    assert not models.Session.objects.exists() and not models.MessageEvent.objects.exists()


def test_a_key_that_is_revoked_ends_what_it_had_asked(desk: Desk) -> None:
    model = desk.world.use(Endless())
    events = desk.heard(lambda _: revoke_key(key=desk.key) or None)
    assert events[-1][1] in ("stopped", "error") and model.n_stopped == 1
    assert model.n_said < len(WORDS) and desk.ask().status_code == 401


def test_a_budget_that_runs_out_between_two_turns_of_tools_ends_the_answer(desk: Desk) -> None:
    agent = desk.world.agent
    agent.agent_type, agent.max_iterations = models.Agent.Type.REACT, 6
    desk.world.set(enable_fast_path=False, tools=["vector_retrieve"])
    model = desk.world.use(
        Calling(
            *(
                calls(call("vector_retrieve", query=f"filter {word}"))
                for word in ("cost", "year", "age")
            ),
            CITED,
        )
    )
    Budget.objects.create(
        key=desk.key,
        period="day",
        max_tokens=20,
        period_start=period_start(period="day", at=timezone.now()),
    )
    events = sse_events(desk.ask().text)
    assert events[-1][1] == "error" and events[-1][2]["code"] == "rate_limited"
    assert len(model.requests) == 2
    row = models.Message.objects.get(key=events[0][2]["message"])
    assert row.status == "error" and row.sources
    assert Budget.objects.get().spent_tokens >= 20
    assert desk.ask().status_code == 429


def test_a_branch_is_written_again_while_another_one_streams(desk: Desk) -> None:
    desk.world.use(CITED)
    first = desk.whole().json()
    model = desk.world.use(Endless())
    told: list[Any] = []

    def again(key: str) -> None:
        desk.world.use(CITED)
        told.append(desk.whole("", regenerate=first["message"]))
        # The one that is being written cannot be written again, nor gone on from.
        told.append(desk.whole("", regenerate=key))
        told.append(desk.whole("And then?", parent=key))
        assert desk.send("post", f"/api/agents/desk/chat/{key}/stop").status_code == 204

    events = desk.heard(again, session=first["session"])
    assert [answer.status_code for answer in told] == [200, 409, 409], [t.text for t in told]
    again_key = told[0].json()["message"]
    assert told[0].json()["answer"] == "Every 30 days.[1]" and again_key != first["message"]
    assert events[-1][1] == "stopped" and model.n_stopped == 1
    session = models.Session.objects.get(key=first["session"])
    assert session.head is not None and str(session.head.key) == again_key, "what was asked last"
    rows = session.messages.filter(role="assistant")
    assert {row.status for row in rows} == {"done", "stopped"} and rows.count() == 3
    path = desk.send("get", f"/api/messages?session={session.key}").json()["results"]
    assert {one["id"] for one in path} >= {first["message"], again_key}
