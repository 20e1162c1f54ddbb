"""Asking agents over HTTP on a real server: streams that begin at once, go on after a cut, and end."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from agents import models
from rag.services.access.api_keys import create_key
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import CITED, OPEN, QUOTE, sse_events
from tests.server_processes import server_process

LONG = " ".join(f"word{number}" for number in range(60))
SCRIPT = {
    "answers": [
        {"contains": "hangs", "answer": "a b c d", "delay_s": 60},
        {"contains": "slowly", "answer": LONG, "delay_s": 3.0},
        {"contains": "steadily", "answer": LONG, "delay_s": 1.0},
    ],
    "default": CITED,
}


@dataclass
class Desk:
    """Two servers on one database, a key, an agent."""

    urls: tuple[str, ...]
    headers: dict[str, str]

    def post(self, path: str, body: Any = None, url: int = 0, **more: Any) -> httpx2.Response:
        return httpx2.post(
            f"{self.urls[url]}{path}", json=body, headers={**self.headers, **more}, timeout=60
        )

    def get(self, path: str, url: int = 0, **more: str) -> httpx2.Response:
        return httpx2.get(f"{self.urls[url]}{path}", headers={**self.headers, **more}, timeout=60)

    def chat(self, message: str, **body: Any) -> list[tuple[int, str, Any]]:
        answer = self.post("/api/agents/desk/chat", {"message": message, **body})
        assert answer.status_code == 200, answer.text
        return sse_events(answer.text)

    def until(self, message: str, n_events: int) -> list[tuple[int, str, Any]]:
        """Ask, and go away after so many events."""
        text = ""
        with httpx2.stream(
            "POST",
            f"{self.urls[0]}/api/agents/desk/chat",
            json={"message": message},
            headers=self.headers,
            timeout=60,
        ) as answer:
            for piece in answer.iter_text():
                text += piece
                seen = sse_events(text[: text.rfind("\n\n") + 2])
                if sum(kind != "ping" for _, kind, _ in seen) >= n_events:
                    break
        return [one for one in sse_events(text[: text.rfind("\n\n") + 2]) if one[1] != "ping"]


@pytest.fixture
def desk(transactional_db: None, tmp_path: Path) -> Iterator[Desk]:
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump(SCRIPT), encoding="utf-8")
    user = UserFactory()
    store = StoreFactory(owner=user, slug="manuals")
    publish(FileFactory(store=store, name="pump.txt"), QUOTE, "The filter costs 45 yuan.")
    models.Agent.objects.create(name="desk", owner=user, config=dict(OPEN))
    _, secret = create_key(user=user, name="k", rights=["read", "write"], requests_per_minute=6000)
    environment = {
        "RAG_CHAT_MODEL": f"scripted:{script}",
        "DATABASE_POOL_SIZE": "2",
        "AGENT_PING_S": "0.3",
    }
    with server_process(**environment) as first, server_process(**environment) as second:
        yield Desk((first, second), {"authorization": f"Bearer {secret}"})


def texts(events: list[tuple[int, str, Any]]) -> str:
    return "".join(data["text"] for _, kind, data in events if kind == "delta")


@pytest.mark.slow
def test_streams_on_a_real_server(desk: Desk) -> None:
    _a_stream_is_what_it_says(desk)
    _the_first_event_comes_at_once_and_nothing_is_held_back(desk)
    _twenty_streams_share_two_connections(desk)
    _whoever_comes_back_gets_the_same_text_from_any_server(desk)
    _a_stop_ends_the_model_here_and_elsewhere(desk)
    _wrong_input_is_refused_before_anything_is_written(desk)


def _a_stream_is_what_it_says(desk: Desk) -> None:
    answer = desk.post("/api/agents/desk/chat", {"message": "How often is the pump serviced?"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    events = sse_events(answer.text)
    assert [seq for seq, kind, _ in events if kind != "ping"] == list(
        range(1, len([kind for _, kind, _ in events if kind != "ping"]) + 1)
    )
    assert events[-1][1] == "done" and events[-1][2]["text"] == texts(events) == "Every 30 days.[1]"
    plain = desk.post(
        "/api/agents/desk/chat", {"message": "How often is the pump serviced?", "stream": False}
    ).json()
    assert plain["answer"] == "Every 30 days.[1]" and plain["outcome"] == "answered"
    assert plain["citations"][0]["verdict"] == "verified" and plain["status"] == "done"
    graph = desk.get("/api/agents/desk/graph?form=mermaid").json()["mermaid"]
    assert "rewrite --> search" in graph and "route -.-> generate" in graph


def _the_first_event_comes_at_once_and_nothing_is_held_back(desk: Desk) -> None:
    firsts, gaps = [], []
    for _ in range(5):
        started, last, first = time.perf_counter(), 0.0, 0.0
        with httpx2.stream(
            "POST",
            f"{desk.urls[0]}/api/agents/desk/chat",
            headers=desk.headers,
            timeout=60,
            json={"message": "Tell me steadily of the pump"},
        ) as answer:
            for piece in answer.iter_text():
                now = time.perf_counter()
                if "event: start" in piece:
                    first = now - started
                if "event: delta" in piece:
                    gaps.append(now - last if last else 0.0)
                    last = now
        firsts.append(first)
    # A hundred milliseconds on an idle machine; this one is shared.
    assert min(firsts) < 1.0, firsts
    # Sixty words in one second, five times: they come one by one, or few together under load.
    assert len(gaps) >= 100 and sorted(gaps)[len(gaps) // 2] < 1.0


def _twenty_streams_share_two_connections(desk: Desk) -> None:
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: desk.chat("Tell me slowly of the pump"), range(20)))
    assert {events[-1][1] for events in found} == {"done"}
    assert {texts(events) for events in found} == {LONG}
    assert any(kind == "ping" or kind == "delta" for _, kind, _ in found[0])


def _whoever_comes_back_gets_the_same_text_from_any_server(desk: Desk) -> None:
    chance = random.Random(7)

    def one(_: int) -> str:
        events = desk.until("Tell me steadily of the pump", chance.randint(1, 40))
        key = events[0][2]["message"]
        while events[-1][1] not in ("done", "error"):
            path = f"/api/agents/desk/chat/{key}"
            url, headers = chance.randint(0, 1), {"Last-Event-ID": str(events[-1][0])}
            text, enough = "", chance.randint(1, 60)
            with httpx2.stream(
                "GET", f"{desk.urls[url]}{path}", headers={**desk.headers, **headers}, timeout=60
            ) as answer:
                for piece in answer.iter_text():
                    text += piece
                    if len(sse_events(text[: text.rfind("\n\n") + 2])) >= enough:
                        break
            more = [one for one in sse_events(text[: text.rfind("\n\n") + 2]) if one[1] != "ping"]
            events += more
        seen = [seq for seq, kind, _ in events if kind != "ping"]
        assert seen == list(range(1, len(seen) + 1)), seen
        return texts(events)

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(one, range(30))) == {LONG}


def _a_stop_ends_the_model_here_and_elsewhere(desk: Desk) -> None:
    for url in (0, 1):
        events = desk.until("Tell me how it hangs with the pump", 2)
        key = events[0][2]["message"]
        started = time.monotonic()
        assert desk.post(f"/api/agents/desk/chat/{key}/stop", url=url).status_code == 204
        rest = sse_events(desk.get(f"/api/agents/desk/chat/{key}?after=1").text)
        assert rest[-1][1] == "stopped" and time.monotonic() - started < 6
        assert models.Message.objects.get(key=key).status == "stopped"
        assert desk.post(f"/api/agents/desk/chat/{key}/stop").status_code == 409


def _wrong_input_is_refused_before_anything_is_written(desk: Desk) -> None:
    before = models.Message.objects.count()
    cases: list[tuple[str, Any, int]] = [
        ("/api/agents/desk/chat", {"message": " "}, 400),
        ("/api/agents/desk/chat", {"message": "x", "nonsense": 1}, 422),
        ("/api/agents/nobody/chat", {"message": "x"}, 404),
        ("/api/agents/desk/chat", {"message": "x", "session": "no-key"}, 404),
        ("/api/agents/desk/chat", {"message": "x", "stores": ["nowhere"]}, 404),
        ("/api/agents/desk/chat", {"regenerate": "no-key"}, 404),
    ]
    for path, body, status in cases:
        assert desk.post(path, body).status_code == status, (path, body)
    assert desk.post("/api/agents/desk/chat", {"message": "x"}, authorization="").status_code == 401
    assert desk.get("/api/agents/desk/chat/no-key").status_code == 404
    bad = {"Last-Event-ID": "x"}
    key = str(models.Message.objects.filter(role="assistant").latest("pk").key)
    assert desk.get(f"/api/agents/desk/chat/{key}", **bad).status_code == 400
    assert models.Message.objects.count() == before
