"""The node's client against a real server and worker, for both backends; and clients that go away."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from rag import models
from rag.services.access.api_keys import create_key
from tests.edges.node_client import KEY, RIGHTS
from tests.factories import UserFactory
from tests.fakes.gemini_server import GeminiServer, Script
from tests.fakes.loopback import LoopbackServer, Reply
from tests.server_processes import server_process, worker_process

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
WARRANTY = "The warranty lasts two years. It covers parts and labour."
QUESTION = "How long does the warranty last?"


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


@pytest.fixture
def web() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        server.route("GET", "/guide.txt", lambda call: Reply(WARRANTY.encode()))
        yield server


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def client(transactional_db: None, gemini: GeminiServer, log: Path) -> Iterator[httpx2.Client]:
    environment = {
        "GEMINI_API_KEY": KEY,
        "GEMINI_BASE_URL": gemini.url,
        "RAG_FETCH_HOSTS": "127.0.0.1",
        "DATABASE_POOL_SIZE": "2",
        "LOG_LEVEL": "DEBUG",
    }
    with server_process(log, **environment) as address:
        _, secret = create_key(
            user=UserFactory(permissions=RIGHTS),
            name="k",
            rights=["read", "write"],
            requests_per_minute=10_000,
        )
        headers = {"authorization": f"Bearer {secret}"}
        with httpx2.Client(base_url=address, headers=headers, timeout=60) as client:
            yield client
    assert KEY not in log.read_text(encoding="utf-8", errors="replace")


def post(client: httpx2.Client, route: str, **body: Any) -> Any:
    response = client.post(f"/api/rag/{route}", json=body)
    assert response.status_code == 200, (response.status_code, response.text)
    return response.json()


def upload(client: httpx2.Client, store: str, content: bytes, **form: str) -> Any:
    response = client.post(
        "/api/rag/upload",
        data={"fileSearchStoreName": store, **form},
        files={"file": ("保固 手册.txt", content, "text/plain")},
    )
    assert response.status_code == 200, (response.status_code, response.text)
    return response.json()


def wait_until(holds: Callable[[], bool], timeout_s: float = 10.0) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.05)


@pytest.mark.parametrize("backend", ["local", "gemini"])
def test_the_client_s_way_from_a_store_to_answers(
    client: httpx2.Client, web: LoopbackServer, backend: str
) -> None:
    with worker_process():
        made = post(client, "store", displayName="store-abcd1234-1700000000000", backend=backend)
        assert set(made) == {"name", "displayName", "createTime"}
        store = made["name"]
        sent = upload(
            client,
            store,
            WARRANTY.encode(),
            displayName="保固.txt",
            maxTokensPerChunk="200",
            maxOverlapTokens="20",
            wait="true",
        )
        assert sent["name"].startswith(f"{store}/documents/")
        assert {**sent, "name": ""} == {
            "name": "",
            "displayName": "保固.txt",
            "sizeBytes": len(WARRANTY),
            "state": "active",
        }
    asked = {"mode": "fileSearch", "query": QUESTION, "fileSearchStoreName": store}
    found = post(client, "search", **asked)
    assert found["documents"] == [WARRANTY]
    assert found["citations"] == [{"source": "保固.txt", "chunk": WARRANTY}]
    files = [{"name": "guide.txt", "url": f"{web.origin}/guide.txt", "type": "text/plain"}]
    whole = post(client, "search", mode="multimodal", query=QUESTION, files=files)
    assert whole["documents"] == [whole["answer"]]
    assert whole["citations"][0]["source"] == "guide.txt"
    with client.stream("POST", "/api/rag/search/stream", json=asked) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        names = [line[7:] for line in response.iter_lines() if line.startswith("event: ")]
    assert names[0] == "delta" and names[-2:] == ["citations", "done"]
    saved = post(client, "nodes/node-1", label="检索", fileSearchStoreName=store)
    assert saved["uploadStatus"] == "completed"
    ran = post(client, "nodes/node-1/run", context={"in": {"user_input": QUESTION}})
    assert (ran["mode"], ran["documentCount"]) == ("fileSearch", 1)
    kept = client.get("/api/rag/nodes/node-1").json()
    assert (kept["searchQuery"], kept["foundDocuments"]) == (QUESTION, [WARRANTY])
    for body, status, sentence in (
        ({**asked, "query": ""}, 400, "查询内容不能为空"),
        ({**asked, "fileSearchStoreName": ""}, 400, "未指定 FileSearchStore"),
        ({**asked, "mode": "x"}, 400, "无效的搜索模式"),
        ({"mode": "multimodal", "query": "x", "files": []}, 400, "未提供文件"),
    ):
        refused = client.post("/api/rag/search", json=body)
        assert (refused.status_code, refused.json()) == (status, {"error": sentence})
    stranger = httpx2.post(f"{client.base_url}/api/rag/search", json=asked)
    assert (stranger.status_code, stranger.json()) == (401, {"error": "Unauthorized"})


def test_streams_hold_no_connection_to_the_database(
    client: httpx2.Client, gemini: GeminiServer
) -> None:
    store = post(client, "store", displayName="x", backend="gemini")["name"]
    gemini.chat = Script(pieces=tuple("piece by piece" for _ in range(6)), pause_s=0.5)
    asked = {"mode": "fileSearch", "query": "x", "fileSearchStoreName": store}
    begun = threading.Barrier(7, timeout=20)

    def stream(n: int) -> str:
        with client.stream("POST", "/api/rag/search/stream", json=asked) as response:
            lines = response.iter_lines()
            first = next(lines)
            begun.wait()
            return [first, *lines][-3]

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(stream, n) for n in range(6)]
        begun.wait()
        # Six answers are being written and two connections are all there are.
        for _ in range(5):
            started = time.monotonic()
            assert client.get("/api/stores").status_code == 200
            assert time.monotonic() - started < 2
        assert all(job.result().startswith("event: done") for job in jobs)
    assert models.UsageRecord.objects.count() == 6


@pytest.mark.parametrize("route", ["search/stream", "search"])
def test_a_client_that_goes_away_stops_the_model(
    client: httpx2.Client, gemini: GeminiServer, route: str
) -> None:
    store = post(client, "store", displayName="x", backend="gemini")["name"]
    gemini.chat = Script(pieces=("piece",) * 100, pause_s=0.2)
    body = {"mode": "fileSearch", "query": "x", "fileSearchStoreName": store}
    if route == "search/stream":
        with client.stream("POST", f"/api/rag/{route}", json=body) as response:
            assert next(response.iter_lines()) == "event: delta"
    else:
        from tests.fakes.loopback import Fault

        gemini.fail(Fault(delay_s=20.0, on="generateContent"))
        with pytest.raises(httpx2.ReadTimeout):
            client.post(f"/api/rag/{route}", json=body, timeout=1.0)
    started = time.monotonic()
    if route == "search/stream":
        assert gemini.gone.wait(5), "Gemini goes on writing for nobody"
        assert time.monotonic() - started < 3
        # What had come by then is paid for.
        wait_until(lambda: models.UsageRecord.objects.filter(outcome="stopped").count() == 1)
    # The next one is served as if nothing had been.
    gemini.chat = Script(pieces=("fine",))
    assert post(client, "search", **body)["answer"] == "fine"
    wait_until(lambda: models.UsageRecord.objects.filter(outcome="ok").count() == 1)


def test_an_upload_that_is_cut_off_leaves_nothing(
    client: httpx2.Client, gemini: GeminiServer
) -> None:
    store = post(client, "store", displayName="x", backend="gemini")["name"]
    place = urlsplit(str(client.base_url))
    head = (
        '--b\r\nContent-Disposition: form-data; name="fileSearchStoreName"\r\n\r\n'
        + store
        + '\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="big.txt"\r\n\r\n'
    ).encode()
    size = 100 * 1024 * 1024
    with socket.create_connection((place.hostname or "", place.port or 0)) as raw:
        raw.sendall(
            f"POST /api/rag/upload HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {size}\r\n"
            f"Authorization: {client.headers['authorization']}\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode()
            + head
        )
        for _ in range(60):
            raw.sendall(b"x" * (size // 100))
    time.sleep(0.5)
    assert not models.File.objects.exists()
    assert not gemini.files.stores[store].documents
    assert client.get("/api/stores").status_code == 200


def test_an_upload_whose_client_goes_away_is_taken_back(
    client: httpx2.Client, gemini: GeminiServer
) -> None:
    store = post(client, "store", displayName="x", backend="gemini")["name"]
    gemini.files.modes.document = "pending"
    gemini.files.modes.operation = "never"
    with pytest.raises(httpx2.ReadTimeout):
        client.post(
            "/api/rag/upload",
            data={"fileSearchStoreName": store},
            files={"file": ("a.txt", b"text", "text/plain")},
            timeout=2.0,
        )
    wait_until(lambda: not models.File.objects.exists())
    wait_until(lambda: not gemini.files.stores[store].documents)


def test_progress_of_an_upload_can_be_read_meanwhile(
    client: httpx2.Client, gemini: GeminiServer
) -> None:
    store = post(client, "store", displayName="x", backend="gemini")["name"]
    gemini.files.modes.n_polls = 4
    seen: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(upload, client, store, b"word " * 500_000)
        while not job.done():
            rows = client.get("/api/files").json()["results"]
            seen += [(row["status"], row["progress"].get("stage")) for row in rows]
            time.sleep(0.1)
        assert job.result()["state"] == "active"
    assert ("uploading", "sending") in seen
    assert json.dumps(seen)
