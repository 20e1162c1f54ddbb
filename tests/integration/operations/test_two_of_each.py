"""Two web servers and two workers on one database: each does for the other, and one may die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import yaml
from django.contrib.auth.models import User
from django.db import connection

from agents import models as agent_models
from rag import models
from rag.services.access.api_keys import create_key
from tests.edges.api_client import WRITER
from tests.factories import GroupFactory, StoreFactory, UserFactory
from tests.forked_processes import ForkedProcess
from tests.integration.agent_world import OPEN, sse_events
from tests.server_processes import mortal_server, worker_process

LONG = " ".join(f"word{number}" for number in range(40))
SCRIPT = {"answers": [{"contains": "slowly", "answer": LONG, "delay_s": 1.5}], "default": "Yes."}
# Nothing is left out for being unlike, or for being the fourth.
ALL = {"vector_threshold": 0.0, "bm25_threshold": 0.0, "top_k": 10}
# What a machine that eight people share may take; a quiet one takes a fraction.
DEADLINE_S = 60
FAST = {
    "WORKER_CONCURRENCY": "1",
    "WORKER_HEARTBEAT": "0.5",
    "WORKER_STALLED_AFTER": "4",
    "AGENT_PING_S": "0.3",
}
WORKERS = "SELECT id FROM procrastinate_workers ORDER BY id"
AT_WORK = """
SELECT worker_id FROM procrastinate_jobs
WHERE task_name = 'rag.index_file' AND status = 'doing' AND worker_id IS NOT NULL
"""
# Only a job that is in the middle of something waits for the lock that the test holds.
STUCK = """
SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
WHERE NOT granted AND relation = 'rag_chunk'::regclass AND datname = current_database()
"""


def rows(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()]


def wait_for(look: Callable[[], Any], meaning: str) -> Any:
    """Return what ``look`` finds, as soon as it finds something."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited in vain: {meaning}"
        time.sleep(0.05)
    return found


@dataclass
class Site:
    """Two servers, two workers by their number in the queue, an owner and a reader with keys."""

    urls: list[str]
    servers: list[ForkedProcess]
    workers: dict[int, ForkedProcess]
    owner: str
    reader: str

    def send(self, web: int, method: str, path: str, key: str = "", **more: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {key or self.owner}", **more.pop("headers", {})}
        url = f"{self.urls[web]}{path}"
        return httpx2.request(method, url, headers=headers, timeout=DEADLINE_S, **more)

    def upload(self, web: int, documents: dict[str, str]) -> None:
        files = [("files", (name, text.encode())) for name, text in documents.items()]
        answer = self.send(web, "post", "/api/files", data={"store": "manuals"}, files=files)
        assert answer.status_code == 201, answer.text

    def found(self, web: int, query: str, key: str = "") -> list[str]:
        """Return the names of the documents found, or the status where that is not 200."""
        body = {"query": query, "stores": ["manuals"]}
        answer = self.send(web, "post", "/api/rag/retrieve", key, json=body)
        if answer.status_code != 200:
            return [f"{answer.status_code} {answer.json()['error']['code']}"]
        return [hit["source"]["name"] for hit in answer.json()["hits"]]


def _completed(n: int) -> bool:
    return models.File.objects.filter(status="completed").count() == n


def _keys() -> tuple[str, str]:
    readers = GroupFactory()
    reader, owner = UserFactory(), UserFactory(permissions=WRITER)
    # Nobody lets in a group that is not his own.
    readers.user_set.add(reader, owner)
    StoreFactory(owner=owner, slug="manuals", readers=[readers], retrieval=ALL, cache_ttl_s=3600)
    agent_models.Agent.objects.create(name="desk", owner=owner, config=dict(OPEN))

    def key_of(user: User, *rights: str) -> str:
        return create_key(user=user, name="k", rights=rights, requests_per_minute=6000)[1]

    return key_of(owner, "read", "write"), key_of(reader, "read")


@pytest.fixture
def site(transactional_db: None, tmp_path: Path) -> Iterator[Site]:
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump(SCRIPT), encoding="utf-8")
    environment = {**FAST, "RAG_CHAT_MODEL": f"scripted:{script}"}
    owner, reader = _keys()
    # They start side by side: each takes seconds of one core.
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        webs = [mortal_server(**environment) for _ in range(2)]
        begun = [pool.submit(web.__enter__) for web in webs]
        for web in webs:
            stack.push(web.__exit__)
        workers: dict[int, ForkedProcess] = {}
        for _ in range(2):
            process = stack.enter_context(worker_process(**environment))
            new = wait_for(lambda: set(rows(WORKERS)) - workers.keys(), "a worker reports")
            workers[new.pop()] = process
        served = [one.result() for one in begun]
        yield Site(
            [url for url, _ in served], [process for _, process in served], workers, owner, reader
        )


@pytest.mark.slow
def test_two_web_servers_and_two_workers_are_one_site(site: Site) -> None:
    _what_one_takes_both_workers_index_and_the_other_finds(site)
    _what_is_changed_on_one_holds_on_the_other_at_once(site)
    _an_answer_begun_on_one_is_followed_on_the_other(site)
    _what_a_killed_worker_held_the_other_finishes(site)
    _when_a_web_server_is_killed_the_other_serves(site)


def _what_one_takes_both_workers_index_and_the_other_finds(site: Site) -> None:
    seen: set[int] = set()
    with work_held():
        site.upload(0, {f"pump {n}.txt": f"The pump HX-{n} is serviced." for n in range(4)})

        def both() -> bool:
            seen.update(rows(AT_WORK))
            return seen == site.workers.keys()

        wait_for(both, "both workers are at work")
    wait_for(lambda: _completed(4), "all four are indexed")
    assert site.found(1, "pump HX-3")[0] == "pump 3.txt"
    assert sorted(site.found(1, "pump")) == [f"pump {n}.txt" for n in range(4)]


def _what_is_changed_on_one_holds_on_the_other_at_once(site: Site) -> None:
    store = "/api/stores/manuals"
    # Asked twice: the second answer comes from the cache of that process.
    for web in (0, 1, 0, 1):
        assert len(site.found(web, "serviced pump", site.reader)) == 4
    narrow = site.send(0, "patch", store, json={"retrieval": {**ALL, "top_k": 2}})
    assert narrow.status_code == 200, narrow.text
    assert len(site.found(1, "serviced pump", site.reader)) == 2
    groups = narrow.json()["reader_groups"]
    assert site.send(0, "patch", store, json={"reader_groups": []}).status_code == 200
    assert site.found(1, "serviced pump", site.reader) == ["404 not_found"]
    wide = {"reader_groups": groups, "retrieval": ALL}
    assert site.send(1, "patch", store, json=wide).status_code == 200
    assert len(site.found(0, "serviced pump", site.reader)) == 4
    gone = models.File.objects.get(name="pump 0.txt").pk
    assert site.send(0, "delete", f"/api/files/{gone}").status_code == 204
    assert sorted(site.found(1, "serviced pump", site.reader)) == [
        f"pump {n}.txt" for n in range(1, 4)
    ]


def _begun(site: Site) -> list[tuple[int, str, Any]]:
    """Return the first events of a slow answer that the first server writes, up to its words."""
    text, body = "", {"message": "Tell me slowly of the pump"}
    with httpx2.stream(
        "POST",
        f"{site.urls[0]}/api/agents/desk/chat",
        json=body,
        timeout=DEADLINE_S,
        headers={"authorization": f"Bearer {site.owner}"},
    ) as answer:
        assert answer.status_code == 200
        for piece in answer.iter_text():
            text += piece
            if "event: delta\n" in text[: text.rfind("\n\n") + 2]:
                break
    return [one for one in sse_events(text[: text.rfind("\n\n") + 2]) if one[1] != "ping"]


def _rest_of(site: Site, seen: list[tuple[int, str, Any]]) -> list[tuple[int, str, Any]]:
    """Return the events that the second server tells behind those that were seen."""
    path = f"/api/agents/desk/chat/{seen[0][2]['message']}"
    rest = site.send(1, "get", path, headers={"Last-Event-ID": str(seen[-1][0])})
    return [one for one in sse_events(rest.text) if one[1] != "ping"]


def _an_answer_begun_on_one_is_followed_on_the_other(site: Site) -> None:
    seen = _begun(site)
    seen += _rest_of(site, seen)
    assert [number for number, _, _ in seen] == list(range(1, len(seen) + 1))
    assert "".join(data["text"] for _, kind, data in seen if kind == "delta") == LONG
    assert seen[-1][1] == "done"


def _what_a_killed_worker_held_the_other_finishes(site: Site) -> None:
    with work_held():
        site.upload(0, {"valve.txt": "The valve closes by itself."})
        wait_for(lambda: rows(STUCK)[0] and rows(AT_WORK), "the job is in the middle of its work")
        (held,) = rows(AT_WORK)
        site.workers[held].kill()
        site.workers[held].wait(DEADLINE_S)
    wait_for(lambda: _completed(4), "the other worker has finished it")
    (other,) = site.workers.keys() - {held}
    assert site.workers[other].poll() is None
    assert site.found(1, "valve closes")[0] == "valve.txt"
    assert models.Chunk.objects.filter(file__name="valve.txt", is_live=True).count() == 1
    assert site.send(1, "get", "/readyz").json()["checks"]["worker"]["ok"]


def _when_a_web_server_is_killed_the_other_serves(site: Site) -> None:
    seen = _begun(site)
    site.servers[0].kill()
    site.servers[0].wait(DEADLINE_S)
    # Nobody waits here for the twenty seconds after which its silence counts.
    rows("UPDATE agents_message SET seen_at = NULL WHERE status = 'running' RETURNING id")
    rest = _rest_of(site, seen)
    kinds = [kind for _, kind, _ in rest]
    begun = kinds.index("replace")
    assert kinds[begun + 1] == "notice" and "begun again" in str(rest[begun + 1][2])
    told = "".join(data["text"] for _, kind, data in rest[begun:] if kind == "delta")
    assert (told, kinds[-1]) == (LONG, "done")
    row = agent_models.Message.objects.get(key=seen[0][2]["message"])
    assert (row.status, row.content) == ("done", LONG)
    site.servers[0].wait(DEADLINE_S)
    with pytest.raises(httpx2.TransportError):
        site.send(0, "get", "/healthz")
    assert site.send(1, "get", "/healthz").json() == {"status": "ok"}
    site.upload(1, {"tea.txt": "Tea is poured."})
    wait_for(lambda: _completed(5), "the last file is indexed")
    assert site.found(1, "tea poured")[0] == "tea.txt"


def work_held() -> ExitStack:
    """Hold every job where it writes its chunks; searches go on."""
    stack = ExitStack()
    names = connection.settings_dict
    held = stack.enter_context(
        psycopg.connect(
            host=names["HOST"],
            port=names["PORT"],
            user=names["USER"],
            dbname=names["NAME"],
            password=names.get("PASSWORD") or None,
        )
    )
    held.execute("LOCK TABLE rag_chunk IN SHARE ROW EXCLUSIVE MODE")
    return stack
