"""The desk in Chinese: nothing of ours or of Unfold's stays English, and the language follows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from rag import models
from rag.core.documents import KINDS, Notice
from rag.core.errors import DocumentError
from rag.services.files.requeue import requeue_files
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
from tests.factories import FileFactory, QueryLogFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
# Names, units and formats, the same in every language.
NAMES = {
    "citable",
    "english",
    "json",
    "rrf",
    "ms",
    "kb",
    "mb",
    "zip",
    "webhook",
    "postgres",
    "token",
    "top",  # Top K, as the trade writes it in Chinese too
    "p95",
    "article",  # as laws in English call it
    "e5",
    "mac",
    "multilingual",
    "small",
    "words",
    "k",
    "bm25",
    "command",
    "control",
    "sql",
    "hybrid",
    "exact",
    "provider",
    "model",
    "document",
    "character",
    "outline",
    "admin",
    "file",
    "id",
    "slug",
    "utc",
    *KINDS,
    *("ocr", "rapidocr", "requirements", "extras"),
    "sha256",
    "handbuch",
    "frage",
    "todo",
    "rag",
    "index",
    "filesearchstores",
    "esc",
    "chef",
    "true",
    "false",
    "en",
    "zh",
    "hans",
    "fresh",
    "vectors",
    "deferred",
    "gb18030",
    "gbk",
    "gb2312",
    "big5",
    "utf",
    "lang",
    "ndcg",
    "xml",
    "shift",
    "jis",
    "euc",
    "jp",
    "kr",
    "windows",
    "markdown",
    "api",
    "gemini",
    "search",
}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, settings: Any) -> models.Store:
    use_words_embedder(monkeypatch, settings)
    store: models.Store = StoreFactory(name="手册", slug="handbuch")
    file = FileFactory(store=store, name="员工.txt")
    publish(file, "年假为二十天。", "病假需要证明。")
    error = DocumentError("“{name}” holds no text.", hint="Upload one with text.", name="空")
    FileFactory(store=store, name="空.pdf", status="error", error=error.as_dict())
    QueryLogFactory(query="年假", store_ids=[store.pk])
    requeue_files(store=store, file_ids=[file.pk])
    return store


@pytest.fixture
def client() -> Client:
    return client_of(UserFactory(is_superuser=True, username="chef"), "zh-CN,zh;q=0.9,en;q=0.5")


def english(markup: str) -> set[str]:
    """Return the English words that a person would read on the page."""
    markup = re.sub(r'(?s)<span class="[^"]*material-symbols[^"]*"[^>]*>.*?</span>', " ", markup)
    markup = re.sub(r"(?s)<(?:div|button|i)[^>]*material-symbols[^>]*>.*?<", "<", markup)
    # Attributes of the page's own scripts hold comparisons, which are no tags.
    markup = re.sub(r'(?s)\b(?:x-[\w.:-]+|hx-[\w-]+)="[^"]*"', " ", markup)
    found = {word.lower() for word in re.findall(r"[A-Za-z][A-Za-z0-9]*", words(markup))}
    return {word for word in found if word not in NAMES and len(word) > 1}


@pytest.mark.parametrize(
    "name",
    [
        "index",
        "rag_store_changelist",
        "rag_store_add",
        "rag_file_changelist",
        "rag_chunk_changelist",
        "rag_chunkrevision_changelist",
        "rag_querylog_changelist",
        "rag_embeddingspace_changelist",
        "procrastinate_procrastinatejob_changelist",
        "auth_user_changelist",
        "auth_group_changelist",
        "rag_goldenquestion_changelist",
        "rag_goldenquestion_add",
        "rag_evaluationrun_changelist",
    ],
)
def test_lists_are_chinese(client: Client, store: models.Store, name: str) -> None:
    assert english(page(client, name)) == set()


@pytest.mark.parametrize("name", ["change", "delete", "search", "upload"])
def test_the_pages_of_a_store_are_chinese(client: Client, store: models.Store, name: str) -> None:
    shown = page(
        client, f"rag_store_{name}", store.pk, **({"q": "年假"} if name == "search" else {})
    )
    names = re.compile(rf"{store.resource_name}|\b[0-9a-f]{{16}}\b")
    assert english(names.sub("", shown)) == set()


@pytest.mark.parametrize("name", ["change", "text", "delete"])
def test_the_pages_of_a_file_are_chinese(client: Client, store: models.Store, name: str) -> None:
    for file in store.files.all():
        shown = (
            page(client, f"rag_file_{name}", file.pk)
            .replace(file.sha256, "")
            .replace(file.content.name, "")
        )
        assert english(shown) == set()


def test_the_page_of_a_chunk_is_chinese(client: Client, store: models.Store) -> None:
    chunk = models.Chunk.objects.filter(store=store).first()
    assert chunk is not None
    assert english(page(client, "rag_chunk_change", chunk.pk)) == set()


def test_the_error_of_a_file_is_chinese(client: Client, store: models.Store) -> None:
    assert "“空”中没有文本。 请上传含有文本的文件。" in page(client, "rag_file_changelist")


def test_the_warnings_of_a_file_are_chinese_and_those_of_old_rows_stay_readable(
    client: Client, store: models.Store
) -> None:
    notice = Notice("“{name}” holds no text.", name="附件 <1>").as_dict()
    file = FileFactory(store=store, name="甲.pdf", warnings=[notice, "page 3 is empty"])
    for place, pks in (("rag_file_changelist", ()), ("rag_file_change", (file.pk,))):
        shown = page(client, place, *pks)
        assert "“附件 &lt;1&gt;”中没有文本。" in shown
        assert "page 3 is empty" in shown
    spoken = client_of(UserFactory(is_superuser=True), "en")
    assert "“附件 &lt;1&gt;” holds no text." in page(spoken, "rag_file_change", file.pk)


def test_the_texts_of_the_scripts_are_chinese(client: Client) -> None:
    catalogue = client.get(at("jsi18n")).content.decode()
    assert r"\u9009\u62e9\u5168\u90e8%s" in catalogue
    assert "admin/js/vendor/select2/i18n/zh-CN.js" in page(client, "rag_store_add")


def test_the_login_is_in_both_languages() -> None:
    chinese = client_of(language="zh-CN").get(at("login")).content.decode()
    assert "欢迎回到" in chinese
    assert english(chinese) == set()
    spoken = words(client_of(language="en").get(at("login")).content.decode())
    assert "Welcome back to" in spoken
    assert "Log in" in spoken


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("zh-CN", "zh-hans"), ("zh", "zh-hans"), ("zh-TW", "zh-hans"), ("fr", "en"), ("en-GB", "en")],
)
def test_the_language_follows_the_browser(asked: str, answered: str) -> None:
    shown = client_of(language=asked).get(at("login")).content.decode()
    assert f'<html lang="{answered}"' in shown


def test_a_chosen_language_wins_over_the_browser(client: Client, store: models.Store) -> None:
    chosen = client.post("/i18n/setlang/", {"language": "en", "next": at("index")})
    assert chosen.status_code == 302
    assert "Stores" in words(page(client, "index"))


def test_the_root_leads_to_the_admin() -> None:
    response = client_of().get("/")
    assert response["Location"] == at("index")
