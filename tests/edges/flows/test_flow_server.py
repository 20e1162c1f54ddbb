"""Flows on two real servers: a cut loses nothing, any server goes on telling, and few connections do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.services.access.api_keys import create_key, scope_of
from tests.edges.flow_desk import FLOW, PROMPTS
from tests.factories import UserFactory
from tests.integration.agent_world import sse_events
from tests.server_processes import mortal_server

LONG = " ".join(f"word{number}" for number in range(40))
SCRIPT = f"""
answers:
  - {{contains: [Judge the risk, danger], answer: {{risk: high}}}}
  - {{contains: [Judge the risk, hangs], answer: {{risk: low}}, delay_s: 60}}
  - {{contains: Judge the risk, answer: {{risk: low}}}}
  - {{contains: Write the answer, answer: "{LONG}", delay_s: 1.0}}
"""


@dataclass
class Servers:
    """Two servers on one database, and a key."""

    urls: tuple[str, ...]
    headers: dict[str, str]
    processes: tuple[Any, ...] = ()

    def send(self, method: str, path: str, url: int = 0, body: Any = None, **more: str) -> Any:
        return httpx2.request(
            method,
            f"{self.urls[url]}/api/flows/desk{path}",
            json=body,
            headers={**self.headers, **more},
            timeout=60,
        )

    def until(self, message: str, kind: str) -> list[tuple[int, str, Any]]:
        """Stream a run, and go away once an event of this kind was seen."""
        text = ""
        with httpx2.stream(
            "POST",
            f"{self.urls[0]}/api/flows/desk/stream",
            json={"message": message},
            headers=self.headers,
            timeout=60,
        ) as answer:
            for piece in answer.iter_text():
                text += piece
                if f"event: {kind}\n" in text[: text.rfind("\n\n") + 2]:
                    break
        return [one for one in sse_events(text[: text.rfind("\n\n") + 2]) if one[1] != "ping"]


@pytest.fixture
def servers(transactional_db: None, tmp_path: Path) -> Iterator[Servers]:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    user = UserFactory()
    version = save_flow_version(files=FlowFiles(FLOW, PROMPTS), scope=scope_of(user))
    activate_version(version=version, scope=scope_of(user))
    _, secret = create_key(user=user, name="k", rights=["read", "write"], requests_per_minute=6000)
    environment = {
        "RAG_CHAT_MODEL": f"scripted:{script}",
        "DATABASE_POOL_SIZE": "2",
        "AGENT_PING_S": "0.3",
        "SERVER_LIFESPAN": "on",
    }
    with mortal_server(**environment) as first, mortal_server(**environment) as second:
        urls, processes = zip(first, second, strict=True)
        yield Servers(urls, {"authorization": f"Bearer {secret}"}, processes)


@pytest.mark.slow
def test_flows_on_real_servers(servers: Servers) -> None:
    _a_cut_loses_nothing_and_the_other_server_tells_the_rest(servers)
    _twenty_runs_share_two_connections(servers)
    _a_run_is_cancelled_from_the_other_server(servers)
    _a_pause_is_decided_on_the_other_server(servers)
    _a_server_that_ends_leaves_its_run_at_once(servers)


def _a_cut_loses_nothing_and_the_other_server_tells_the_rest(servers: Servers) -> None:
    seen = servers.until("which way?", "token")
    key, last = seen[0][2]["run"], seen[-1][0]
    assert models.FlowRun.objects.get(key=key).status == "running"
    rest = servers.send("get", f"/runs/{key}/events", url=1, **{"Last-Event-ID": str(last)})
    told = [one for one in sse_events(rest.text) if one[1] != "ping"]
    assert any(kind == "ping" for _, kind, _ in sse_events(rest.text)) or len(told) > 5
    both = [*seen, *told]
    assert [seq for seq, _, _ in both] == list(range(1, len(both) + 1))
    words = [data["text"] for _, kind, data in both if kind == "token" and data["node"] == "answer"]
    assert "".join(words) == both[-1][2]["answer"] == LONG
    again = servers.send("get", f"/runs/{key}/events", url=1)
    assert [one for one in sse_events(again.text) if one[1] != "ping"] == both
    read = servers.send("get", f"/runs/{key}", url=1).json()
    assert (read["status"], read["answer"], read["n_steps"]) == ("done", LONG, 2)


def _twenty_runs_share_two_connections(servers: Servers) -> None:
    def one(number: int) -> tuple[int, str]:
        body = {"message": f"way {number}?", "wait_s": 50}
        answer = servers.send("post", "/run", url=number % 2, body=body)
        return answer.status_code, answer.json().get("answer", answer.text)

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(20))) == {(200, LONG)}


def _a_run_is_cancelled_from_the_other_server(servers: Servers) -> None:
    seen = servers.until("it hangs", "node_started")
    key, started = seen[0][2]["run"], time.monotonic()
    assert servers.send("post", f"/runs/{key}/cancel", url=1).json()["status"] == "cancelled"
    rest = sse_events(servers.send("get", f"/runs/{key}/events").text)
    assert rest[-1][1] == "cancelled" and time.monotonic() - started < 8
    assert servers.send("post", f"/runs/{key}/cancel").status_code == 409


def _a_pause_is_decided_on_the_other_server(servers: Servers) -> None:
    seen = servers.until("danger", "paused")
    key = seen[0][2]["run"]
    body = {"decision": "send", "wait_s": 0}
    assert servers.send("post", f"/runs/{key}/resume", url=1, body=body).status_code == 202
    rest = servers.send("get", f"/runs/{key}/events", **{"Last-Event-ID": str(seen[-1][0])})
    kinds = [kind for _, kind, _ in sse_events(rest.text) if kind != "ping"]
    assert kinds[:2] == ["decided", "continued"] and kinds[-1] == "done"


def _a_server_that_ends_leaves_its_run_at_once(servers: Servers) -> None:
    seen = servers.until("it hangs", "node_started")
    run = models.FlowRun.objects.get(key=seen[0][2]["run"])
    address = f"{servers.urls[0]}/api/flows/desk/runs/{run.key}/events"
    with httpx2.stream("GET", address, headers=servers.headers, timeout=60) as answer:
        pieces = answer.iter_text()
        text = next(pieces)
        servers.processes[0].terminate()
        started = time.monotonic()
        jobs = ProcrastinateJob.objects.filter(
            task_name="agents.adopt_run", args={"run_id": run.pk}
        )
        while not jobs.exists():
            # Without a word a run is given up for dead after 20 s.
            assert time.monotonic() - started < 10
            time.sleep(0.02)
        run.refresh_from_db()
        assert (run.status, run.worker) == ("running", None)
        # The stream is open still, and ends when the run does, wherever that is.
        models.FlowRun.objects.filter(pk=run.pk).update(status="cancelled")
        text += "".join(pieces)
    assert {kind for _, kind, _ in sse_events(text)} <= {"run_started", "node_started", "ping"}
    assert servers.processes[0].wait(20) == -15
