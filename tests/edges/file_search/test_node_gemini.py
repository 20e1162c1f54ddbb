"""The node's routes with stores at Gemini: the real SDK before a Gemini of our own, and its faults."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from rag import models
from rag.services.ingest.indexing import index_file
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.edges.node_client import (
    KEY,
    builder,
    events,
    local_store,
    new_store,
    post,
    refused,
    send,
    use_gemini,
)
from tests.factories import UserFactory
from tests.fakes.gemini_server import GeminiServer, Script
from tests.fakes.loopback import Call, Fault

pytestmark = pytest.mark.django_db
WARRANTY = "The warranty lasts two years. It covers parts and labour."
LEAVE = "員工每年可以把五天年假結轉到下一年。"
QUESTION = "How long does the warranty last?"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _gemini(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None, server: GeminiServer
) -> None:
    use_words_embedder(monkeypatch, settings)
    use_gemini(settings, server)


@pytest.fixture
def user() -> User:
    return builder()


@pytest.fixture
def client(user: User) -> KeyClient:
    return client_for(user)


def made(client: KeyClient) -> str:
    return new_store(client, "store-node1234-1700000000000", backend="gemini")


def starts(server: GeminiServer) -> list[Call]:
    """Return the requests that begin an upload."""
    return [c for c in server.calls if c.path.endswith("uploadToFileSearchStore") and c.body]


def asked(client: KeyClient, store: str, route: str = "search", query: str = QUESTION) -> Any:
    return post(client, route, mode="fileSearch", query=query, fileSearchStoreName=store)


def test_a_store_is_made_there_and_here(
    client: KeyClient, user: User, server: GeminiServer
) -> None:
    response = post(client, "store", displayName="store-abc-1", backend="gemini")
    body = ok(response)
    assert set(body) == {"name", "displayName", "createTime"}
    store = models.Store.objects.get()
    assert (store.backend, store.owner, store.space) == ("gemini", user, None)
    assert body["name"] == store.resource_name == next(iter(server.files.stores))
    assert body["displayName"] == "store-abc-1" and body["createTime"].endswith("Z")


def test_the_installation_decides_where_and_the_same_name_twice_is_two(
    client: KeyClient, settings: Any, server: GeminiServer
) -> None:
    assert ok(post(client, "store", displayName="x"))["name"] not in server.files.stores
    settings.RAG = {**settings.RAG, "DEFAULT_STORE_BACKEND": "gemini"}
    names = {ok(post(client, "store", displayName="x"))["name"] for _ in range(2)}
    assert len(names) == 2 and names == set(server.files.stores)
    assert "nowhere" in refused(post(client, "store", displayName="x", backend="nowhere"), 400)
    refused(post(client, "store", displayName=" "), 400)
    refused(post(client, "store", displayName="x" * 513), 400)
    refused(post(client, "store", displayName=5), 400)


def test_without_a_key_stores_there_say_so_and_ours_work(
    client: KeyClient, user: User, settings: Any
) -> None:
    store = made(client)
    settings.RAG = {**settings.RAG, "GEMINI_API_KEY": ""}
    for response in (
        post(client, "store", displayName="x", backend="gemini"),
        asked(client, store),
        asked(client, store, "search/stream"),
        send(client, store, "a.txt", b"text"),
    ):
        refused(response, 500, "Gemini API Key 未配置")
    ok(asked(client, local_store(user, WARRANTY).resource_name))


def test_a_document_goes_there_and_answers(client: KeyClient, server: GeminiServer) -> None:
    store = made(client)
    body = ok(send(client, store, "a.bin", WARRANTY.encode(), displayName="保固 手册.notes"))
    assert set(body) == {"name", "displayName", "sizeBytes", "state"}
    assert (body["displayName"], body["sizeBytes"], body["state"]) == (
        "保固 手册.notes",
        len(WARRANTY),
        "active",
    )
    file = models.File.objects.get()
    assert body["name"] == file.remote_name and body["name"].startswith(f"{store}/documents/")
    assert (file.status, file.progress, file.revision) == ("completed", {}, 1)
    assert not models.Chunk.objects.exists()
    answer = ok(asked(client, store))
    assert answer["citations"] == [{"source": "保固 手册.notes", "chunk": WARRANTY}]
    assert answer["documents"] == [WARRANTY] and "two years" in answer["answer"]
    record = models.UsageRecord.objects.get()
    assert (record.provider, record.model, record.kind) == (
        "gemini",
        "gemini-2.5-flash",
        "fileSearch",
    )
    assert record.input_tokens and record.output_tokens


def test_chunks_are_cut_as_was_asked_and_ranges_are_checked_before_anything_is_sent(
    client: KeyClient, server: GeminiServer
) -> None:
    store = made(client)
    n = len(server.calls)
    for form in (
        {"maxTokensPerChunk": "49"},
        {"maxTokensPerChunk": "501"},
        {"maxOverlapTokens": "101"},
        {"maxOverlapTokens": "-1"},
        {"maxTokensPerChunk": "x"},
        {"maxTokensPerChunk": "5e2"},
        {"maxOverlapTokens": "--1"},
        {"wait": "maybe"},
        {"wait": "2"},
    ):
        refused(send(client, store, "a.txt", b"text", **form), 400)
    assert len(server.calls) == n and not models.File.objects.exists()
    ok(send(client, store, "a.txt", b"text", maxTokensPerChunk="50", maxOverlapTokens="0"))
    start = starts(server)[-1]
    assert b'"max_tokens_per_chunk":50' in start.body.replace(b": ", b":")
    ok(send(client, store, "b.txt", b"other"))
    start = starts(server)[-1]
    assert b'"max_tokens_per_chunk":200' in start.body.replace(b": ", b":")


def test_what_an_upload_lacks_is_said_in_the_client_s_words(
    client: KeyClient, settings: Any
) -> None:
    store = made(client)
    refused(client.post("/api/rag/upload", {"fileSearchStoreName": store}), 400, "未提供文件")
    refused(send(client, store, "a.txt", b""), 400, "未提供文件")
    refused(send(client, " ", "a.txt", b"x"), 400, "未指定 FileSearchStore")
    refused(send(client, "fileSearchStores/none", "a.txt", b"x"), 404)
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 1024**2}
    refused(send(client, store, "a.txt", b"x" * (1024**2 + 1)), 400, "文件大小超过 1MB")
    refused(post(client, "upload", fileSearchStoreName=store), 400)
    raw = client.post(
        "/api/rag/upload", b"--x\r\nbroken", content_type="multipart/form-data; boundary=x"
    )
    refused(raw, 400)
    refused(
        client.post("/api/rag/upload", b"", content_type="multipart/form-data"), 400
    )  # no boundary
    assert not models.File.objects.exists()


def test_who_waits_for_a_queue_that_nobody_works_on_is_told(
    client: KeyClient, settings: Any
) -> None:
    settings.RAG = {**settings.RAG, "UPLOAD_TIMEOUT_S": 0.3}
    store = new_store(client, backend="local")
    told = refused(send(client, store, "慢.txt", b"words", wait="true"), 500)
    assert told.startswith("“慢.txt” could not be found within 0.3 s.") and "worker" in told
    assert models.File.objects.get().status == "processing"


def test_the_same_bytes_are_one_document(client: KeyClient, server: GeminiServer) -> None:
    store = made(client)
    first = ok(send(client, store, "a.txt", b"the same"))
    second = ok(send(client, store, "b.txt", b"the same"))
    assert first["name"] == second["name"]
    third = ok(send(client, store, "b.txt", b"the same", maxTokensPerChunk="100"))
    assert third["name"] != first["name"]
    assert len(server.files.stores[store].documents) == 1


def test_a_reader_asks_and_does_not_upload(client: KeyClient, user: User) -> None:
    store = made(client)
    ok(send(client, store, "a.txt", WARRANTY.encode()))
    models.Store.objects.update(is_public=True)
    reader = client_for(builder())
    ok(asked(reader, store))
    refused(send(reader, store, "b.txt", b"other"), 403)
    models.Store.objects.update(is_public=False)
    refused(asked(reader, store), 404)


@pytest.mark.parametrize("route", ["search", "search/stream"])
def test_a_store_deleted_behind_our_back_is_said_to_be_gone(
    client: KeyClient, server: GeminiServer, route: str
) -> None:
    store = made(client)
    del server.files.stores[store]
    response = asked(client, store, route)
    if route == "search":
        refused(response, 404)
    else:
        assert events(response)[-1][0] == "error"
    refused(send(client, store, "a.txt", b"x"), 404)
    file = models.File.objects.get()
    assert file.status == "error" and file.remote_name == ""


@pytest.mark.parametrize(
    ("mode", "value"),
    [("document", "failed"), ("operation", "error")],
)
def test_a_document_that_fails_leaves_none_there_and_its_reason_here(
    client: KeyClient, server: GeminiServer, mode: str, value: str
) -> None:
    store = made(client)
    setattr(server.files.modes, mode, value)
    told = refused(send(client, store, "a.txt", b"x"), 400) if mode == "document" else ""
    if not told:
        response = send(client, store, "a.txt", b"x")
        assert response.status_code in (400, 500)
    assert not server.files.stores[store].documents
    file = models.File.objects.get()
    assert file.status == "error" and file.error and file.progress == {}
    setattr(server.files.modes, mode, {"document": "active", "operation": "done"}[mode])
    assert ok(send(client, store, "a.txt", b"x"))["state"] == "active"
    file.refresh_from_db()
    assert file.status == "completed" and file.error is None


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (
            Fault(
                429,
                {
                    "error": {
                        "code": 429,
                        "message": "quota",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [
                            {
                                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                                "retryDelay": "0.05s",
                            }
                        ],
                    }
                },
            ),
            200,
        ),
        (
            Fault(500, {"error": {"code": 500, "message": "oops", "status": "INTERNAL"}}, times=1),
            200,
        ),
        (Fault(cut="before", times=1), 200),
        (Fault(400, {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}), 500),
        (Fault(200, b"<html>login</html>"), 500),
    ],
    ids=["429", "500 once", "dropped", "400", "html"],
)
def test_faults_end_in_an_answer_or_a_sentence(
    client: KeyClient, server: GeminiServer, fault: Fault, status: int
) -> None:
    store = made(client)
    ok(send(client, store, "a.txt", WARRANTY.encode()))
    server.fail(fault)
    response = asked(client, store)
    if status == 200:
        ok(response)
    else:
        told = refused(response, status)
        assert KEY not in told
    assert models.UsageRecord.objects.count() == (status == 200)


def test_a_wrong_key_a_blocked_prompt_and_no_text_are_told(
    client: KeyClient, server: GeminiServer
) -> None:
    store = made(client)
    server.chat = Script(kind="blocked")
    assert "SAFETY" in refused(asked(client, store), 500)
    server.chat = Script(pieces=(), finish_reason="MAX_TOKENS")
    refused(asked(client, store), 500)
    server.key = "another"
    told = refused(asked(client, store), 500)
    assert "GEMINI_API_KEY" in told and KEY not in told


def test_a_hang_ends_within_the_deadline(
    client: KeyClient, server: GeminiServer, settings: Any
) -> None:
    store = made(client)
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.3}
    server.fail(Fault(delay_s=3.0, times=9))
    refused(asked(client, store), 500)


def test_an_answer_is_streamed_and_a_stream_that_breaks_off_ends_in_an_error(
    client: KeyClient, server: GeminiServer
) -> None:
    store = made(client)
    ok(send(client, store, "a.txt", WARRANTY.encode()))
    told = events(asked(client, store, "search/stream"))
    assert [name for name, _ in told][-2:] == ["citations", "done"]
    done = told[-1][1]
    assert done["citations"] == [{"source": "a.txt", "chunk": WARRANTY}]
    assert done["model"] == "gemini:gemini-2.5-flash" and done["usage"]["outputTokens"]
    server.chat = Script(pieces=("half", " an answer"), ending="drop")
    told = events(asked(client, store, "search/stream"))
    assert told[0] == ("delta", {"text": "half"})
    assert told[-1][0] == "error" and set(told[-1][1]) == {"error", "status"}


def test_files_sent_along_go_to_gemini_images_too(client: KeyClient, server: GeminiServer) -> None:
    files = [
        {"name": "图.png", "url": "data:image/png;base64," + base64.b64encode(PNG).decode()},
        {"name": "a.txt", "url": "data:text/plain," + WARRANTY.replace(" ", "%20")},
    ]
    body = ok(post(client, "search", mode="multimodal", query=QUESTION, files=files))
    assert body["citations"] == [
        {"source": "图.png", "chunk": ""},
        {"source": "a.txt", "chunk": ""},
    ]
    assert body["documents"] == [body["answer"]]
    assert models.UsageRecord.objects.get().kind == "multimodal"
    assert (
        events(post(client, "search/stream", mode="multimodal", query=QUESTION, files=files))[-1][0]
        == "done"
    )


def test_search_retrieve_and_reindex_answer_clearly_for_a_store_there(
    user: User, server: GeminiServer
) -> None:
    client = client_for(UserFactory(is_superuser=True))
    store = made(client)
    ok(send(client, store, "a.txt", WARRANTY.encode()))
    slug = models.Store.objects.get().slug
    response = client.send("post", "/api/rag/retrieve", {"query": "a", "stores": [slug]})
    assert "kept at Gemini" in error_of(response, 400)["message"]
    answer = ok(client.send("post", "/api/rag/ask", {"query": QUESTION, "stores": [slug]}))
    assert "two years" in answer["answer"]
    assert answer["citations"][0]["file_name"] == "a.txt"
    assert answer["hits"][0]["source_name"] == "gemini_file_search"
    file = models.File.objects.get()
    before = file.remote_name
    index_file(file_id=file.pk)
    file.refresh_from_db()
    assert file.remote_name != before and file.status == "completed"
    assert set(server.files.stores[store].documents) == {file.remote_name}
    ok(client.send("patch", f"/api/files/{file.pk}", {"metadata": {"lang": "en"}}))
    group = client.send("patch", f"/api/files/{file.pk}", {"restricted_to": []})
    ok(group)
    assert client.delete(f"/api/files/{file.pk}").status_code == 204
    assert not server.files.stores[store].documents
    assert client.delete(f"/api/stores/{slug}").status_code == 204
    assert not server.files.stores
