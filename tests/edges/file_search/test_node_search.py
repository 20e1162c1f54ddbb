"""``/api/rag/search`` on stores of ours and without any key: shapes, messages, files, streams."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rag import models
from rag.services.access.api_keys import create_key
from tests.edges.admin_client import client_of, use_words_embedder
from tests.edges.api_client import KeyClient, client_for
from tests.edges.node_client import builder, events, local_store, post, refused, send
from tests.factories import FileFactory, StoreFactory, UserFactory
from tests.fakes.loopback import LoopbackServer, Reply

pytestmark = pytest.mark.django_db
WARRANTY = "The warranty lasts two years. It covers parts and labour."
LEAVE = "員工每年可以把五天年假結轉到下一年。"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)
    settings.RAG = {**settings.RAG, "FETCH_HOSTS": ("127.0.0.1",)}


@pytest.fixture
def user() -> User:
    return builder()


@pytest.fixture
def client(user: User) -> KeyClient:
    return client_for(user)


@pytest.fixture
def web() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        server.route("GET", "/guide.txt", lambda call: Reply(WARRANTY.encode()))
        server.route("GET", "/page", lambda call: Reply(b"<!doctype html><html><p>no</html>"))
        server.route("GET", "/picture", lambda call: Reply(PNG))
        server.route("GET", "/empty", lambda call: Reply(b""))
        yield server


def data_url(text: str) -> str:
    return "data:text/plain;base64," + base64.b64encode(text.encode()).decode()


def test_an_upload_that_is_sent_again_is_taken_once(client: KeyClient, user: User) -> None:
    store = local_store(user, WARRANTY)
    client.defaults["HTTP_IDEMPOTENCY_KEY"] = "one"
    first, again = (send(client, store.resource_name, "a.txt", LEAVE.encode()) for _ in range(2))
    assert first.status_code == again.status_code == 200 and first.json() == again.json()
    assert store.files.count() == 2
    refused(send(client, store.resource_name, "a.txt", b"other words"), 409)


def test_a_store_of_ours_answers_in_the_client_s_shape(client: KeyClient, user: User) -> None:
    store = local_store(user, WARRANTY, LEAVE)
    response = post(
        client,
        "search",
        mode="fileSearch",
        query="How long does the warranty last?",
        fileSearchStoreName=store.resource_name,
    )
    assert response.status_code == 200, response.content
    body = response.json()
    assert set(body) == {"documents", "citations", "answer", "grounding", "notice"}
    assert body["grounding"]["verdict"] == "grounded"
    assert body["documents"] == [WARRANTY]
    assert body["citations"] == [{"source": "手册.pdf", "chunk": WARRANTY}]
    assert body["answer"].startswith("The warranty lasts two years.")
    record = models.UsageRecord.objects.get()
    assert (record.kind, record.provider, record.user, record.store) == (
        "fileSearch",
        "extractive",
        user,
        store,
    )


def test_nothing_found_is_an_answer_without_citations(client: KeyClient, user: User) -> None:
    store = StoreFactory(owner=user)
    body = post(
        client,
        "search",
        mode="fileSearch",
        query="年假幾天？",
        fileSearchStoreName=store.resource_name,
    ).json()
    assert body["documents"] == [body["answer"]] == ["没有找到相关内容。"]
    assert "citations" not in body


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"mode": "fileSearch", "query": "", "fileSearchStoreName": "x"}, "查询内容不能为空"),
        ({"mode": "fileSearch", "query": " \n"}, "查询内容不能为空"),
        ({"mode": "fileSearch"}, "查询内容不能为空"),
        ({"mode": "fileSearch", "query": 5}, "查询内容不能为空"),
        ({"mode": "fileSearch", "query": "a"}, "未指定 FileSearchStore"),
        (
            {"mode": "fileSearch", "query": "a", "fileSearchStoreName": " "},
            "未指定 FileSearchStore",
        ),
        ({"mode": "multimodal", "query": "a"}, "未提供文件"),
        ({"mode": "multimodal", "query": "a", "files": []}, "未提供文件"),
        ({"mode": "multimodal", "query": "a", "files": [{"url": " "}, 3, None]}, "未提供文件"),
        ({"mode": "other", "query": "a"}, "无效的搜索模式"),
        ({"query": "a"}, "无效的搜索模式"),
        ({"mode": ["fileSearch"], "query": "a"}, "无效的搜索模式"),
    ],
)
@pytest.mark.parametrize("route", ["search", "search/stream"])
def test_what_is_missing_is_said_in_the_client_s_words(
    client: KeyClient, route: str, body: dict[str, Any], sentence: str
) -> None:
    refused(post(client, route, **body), 400, sentence)


@pytest.mark.parametrize("route", ["search", "search/stream", "store", "upload", "nodes/n/run"])
def test_who_is_unknown_is_unauthorized_and_another_method_is_refused(route: str) -> None:
    for unknown in (KeyClient(), KeyClient("ck_wrong"), KeyClient("ck_" + "x" * 5000)):
        response = unknown.send("post", f"/api/rag/{route}", {})
        refused(response, 401, "Unauthorized")
        assert response["WWW-Authenticate"] == "Bearer"
    for method in ("get", "put", "patch", "delete"):
        response = getattr(client_for(UserFactory()), method)(f"/api/rag/{route}")
        assert method.upper() in refused(response, 405)
        assert response["Allow"] == "POST"


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"query": "\\u0000", "mode": "fileSearch"}', "application/json", 400),
        (b"[" * 200, "application/json", 400),
        (b"query=a", "application/x-www-form-urlencoded", 400),
        (b"{}", "text/plain", 400),
    ],
)
@pytest.mark.parametrize("route", ["search", "store", "search/stream", "nodes/n"])
def test_a_body_that_is_no_json_object_is_refused(
    client: KeyClient, route: str, raw: bytes, kind: str, status: int
) -> None:
    refused(client.post(f"/api/rag/{route}", raw, content_type=kind), status)


def test_an_unreadable_store_is_told_like_none(client: KeyClient) -> None:
    other = StoreFactory(owner=UserFactory())
    told = []
    for name in (other.resource_name, "fileSearchStores/nowhere"):
        for route in ("search", "search/stream"):
            response = post(client, route, mode="fileSearch", query="a", fileSearchStoreName=name)
            told.append(refused(response, 404).replace(name, "…"))
    assert len(set(told)) == 1


def test_a_key_limited_to_other_stores_or_rights_is_refused(user: User) -> None:
    store, other = StoreFactory(owner=user), StoreFactory(owner=user)
    asked = {"mode": "fileSearch", "query": "a", "fileSearchStoreName": store.resource_name}
    refused(post(client_for(user, stores=[other]), "search", **asked), 404)
    refused(post(client_for(user, rights=["write"]), "search", **asked), 403)
    refused(post(client_for(user, rights=["read"]), "store", displayName="x"), 403)
    refused(post(client_for(user, stores=[other]), "store", displayName="x"), 403)
    refused(post(client_for(UserFactory()), "store", displayName="x"), 403)
    assert models.Store.objects.count() == 2


def test_too_many_requests_are_told_with_the_wait(user: User) -> None:
    _, secret = create_key(user=user, name="k", requests_per_minute=1)
    client = KeyClient(secret)
    refused(post(client, "search"), 400, "查询内容不能为空")
    response = post(client, "search")
    refused(response, 429)
    assert 1 <= int(response["Retry-After"]) <= 60
    assert response["X-RateLimit-Remaining"] == "0"


def test_a_signed_in_user_needs_the_token_against_forgery(user: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    body = json.dumps({"mode": "fileSearch", "query": ""})
    refused(strict.post("/api/rag/search", body, content_type="application/json"), 403)
    strict.get("/admin/")
    token = strict.cookies["csrftoken"].value if "csrftoken" in strict.cookies else ""
    if not token:
        page = client_of(user).get("/admin/password_change/")
        token = page.cookies["csrftoken"].value if "csrftoken" in page.cookies else ""
    strict.cookies["csrftoken"] = token = token or "a" * 32
    response = strict.post(
        "/api/rag/search", body, content_type="application/json", headers={"x-csrftoken": token}
    )
    refused(response, 400, "查询内容不能为空")


def test_files_sent_along_are_answered_with_checked_quotes(
    client: KeyClient, user: User, web: LoopbackServer
) -> None:
    own = FileFactory(store=StoreFactory(owner=user), name="own.txt")
    response = post(
        client,
        "search",
        mode="multimodal",
        query="How long does the warranty last?",
        files=[
            {"name": "guide.txt", "url": f"{web.origin}/guide.txt", "type": "text/plain"},
            {"name": "假.txt", "url": data_url(LEAVE)},
            {"name": "own.txt", "url": f"/api/files/{own.pk}/original"},
        ],
    )
    assert response.status_code == 200, response.content
    body = response.json()
    assert body["documents"] == [body["answer"]]
    assert body["citations"][0] == {"source": "guide.txt", "chunk": "The warranty lasts two years."}
    assert models.UsageRecord.objects.get().kind == "multimodal"
    assert models.File.objects.count() == 1


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("{web}/missing", 500, "404"),
        ("{web}/empty", 400, "is empty"),
        ("{web}/page", 400, "html"),
        ("{web}/picture", 500, "only Gemini reads images"),
        ("http://169.254.169.254/latest", 403, ""),
        ("ftp://127.0.0.1/x", 400, "begins with “ftp”"),
        ("data:text/plain;base64,@@@", 400, "no base64"),
        ("data:text/plain", 400, "no content"),
        ("/api/files/999999/original", 404, "no file 999999"),
        ("relative/path.txt", 404, "no file at this address"),
        ("file:///etc/passwd", 400, "begins with “file”"),
        ("http://[", 400, "cannot be read"),
    ],
)
def test_one_bad_file_fails_the_request_with_its_name_and_reason(
    client: KeyClient, web: LoopbackServer, url: str, status: int, says: str
) -> None:
    files = [
        {"name": "good.txt", "url": data_url(WARRANTY)},
        {"name": "坏.bin", "url": url.replace("{web}", web.origin)},
    ]
    body = {"mode": "multimodal", "query": "warranty", "files": files}
    told = refused(post(client, "search", **body), status)
    assert "坏.bin" in told and says in told, told
    response = post(client, "search/stream", **body)
    if response.status_code == 200:
        # What the model cannot take is known only once it is asked.
        name, data = events(response)[-1]
        assert (name, data) == ("error", {"error": told, "status": status})
    else:
        assert refused(response, status) == told


def test_a_file_of_a_store_that_one_may_not_read_is_not_fetched(client: KeyClient) -> None:
    hidden = FileFactory(store=StoreFactory(owner=UserFactory()))
    for url in (
        f"/api/files/{hidden.pk}/original",
        f"files/{hidden.pk}",
        f"{hidden.store.resource_name}/documents/{hidden.pk}",
        f"http://testserver/api/files/{hidden.pk}/original",
    ):
        response = post(
            client, "search", mode="multimodal", query="a", files=[{"name": "x", "url": url}]
        )
        assert f"{hidden.pk}" in refused(response, 404)


def test_a_file_that_does_not_come_is_named(
    client: KeyClient, settings: Any, web: LoopbackServer
) -> None:
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.2}
    web.route("GET", "/slow.txt", lambda call: Reply(events=[b"x", 5.0]))
    files = [{"name": "慢.txt", "url": f"{web.origin}/slow.txt"}]
    told = refused(post(client, "search", mode="multimodal", query="a", files=files), 500)
    assert told.startswith("“慢.txt”: 127.0.0.1") and "did not answer within 0.4 s" in told


def test_the_files_have_a_limit_together_and_in_number(
    client: KeyClient, settings: Any, web: LoopbackServer
) -> None:
    settings.RAG = {**settings.RAG, "FILES_TOTAL_MB": 1}
    web.route("GET", "/large.txt", lambda call: Reply(b"word " * 120_000))
    files = [{"name": f"{n}.txt", "url": f"{web.origin}/large.txt"} for n in range(2)]
    told = refused(post(client, "search", mode="multimodal", query="a", files=files), 400)
    assert "larger than 1 MB together" in told
    many = [{"name": "x", "url": data_url("x")}] * 21
    assert "21" in refused(post(client, "search", mode="multimodal", query="a", files=many), 400)


def test_errors_are_told_in_the_language_that_is_asked_for(user: User, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "API_FAILURES_PER_MINUTE": 1000}
    chinese = client_for(user, language="zh-hans")
    response = post(
        chinese, "search", mode="fileSearch", query="a", fileSearchStoreName="fileSearchStores/x"
    )
    assert "没有" in refused(response, 404) or "不存在" in refused(response, 404)


@pytest.mark.parametrize("how", ["accept", "address"])
def test_an_answer_comes_in_pieces_then_citations_then_all_of_it(
    client: KeyClient, user: User, how: str
) -> None:
    store = local_store(user, WARRANTY)
    asked = {
        "mode": "fileSearch",
        "query": "How long does the warranty last?",
        "fileSearchStoreName": store.resource_name,
    }
    if how == "accept":
        response = client.post(
            "/api/rag/search",
            asked,
            content_type="application/json",
            headers={"accept": "text/event-stream"},
        )
    else:
        response = post(client, "search/stream", **asked)
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-cache"
    told = events(response)
    names = [name for name, _ in told]
    assert names == ["delta"] * (len(names) - 2) + ["citations", "done"]
    done = told[-1][1]
    assert "".join(data["text"] for name, data in told if name == "delta") == done["answer"]
    assert (
        told[-2][1]["citations"] == done["citations"] == [{"source": "手册.pdf", "chunk": WARRANTY}]
    )
    assert (done["documents"], done["mode"]) == ([WARRANTY], "fileSearch")
    assert models.UsageRecord.objects.count() == 1


def test_files_sent_along_are_streamed_too(client: KeyClient) -> None:
    response = post(
        client,
        "search/stream",
        mode="multimodal",
        query="How long does the warranty last?",
        files=[{"name": "guide.txt", "url": data_url(WARRANTY)}],
    )
    told = events(response)
    assert told[-1][0] == "done"
    assert told[-1][1]["citations"][0]["source"] == "guide.txt"
    assert told[-1][1]["documents"] == [told[-1][1]["answer"]]
