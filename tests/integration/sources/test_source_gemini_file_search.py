"""The source of stores that answer: the contract, over the real SDK and a Gemini of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.file_search import Upload
from rag.core.options import read_options
from rag.core.sources import SourceQuery
from rag.plugins.contract_source import SourceContract
from rag.plugins.sources.gemini_file_search import GeminiFileSearchSource
from rag.services.access.api_keys import scope_of
from rag.services.files.upload import upload_document
from rag.services.sources.ports import SourceContext
from rag.services.stores.lifecycle import create_named_store
from tests.edges.admin_client import use_words_embedder
from tests.edges.node_client import KEY, use_gemini
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.fakes.gemini_server import GeminiServer
from tests.fakes.loopback import Fault

pytestmark = pytest.mark.django_db(transaction=True)
WARRANTY = "The warranty lasts two years. It covers parts and labour."


@pytest.fixture(autouse=True)
def server(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[GeminiServer]:
    use_words_embedder(monkeypatch, settings)
    with GeminiServer() as server:
        use_gemini(settings, server)
        yield server


@pytest.fixture(autouse=True)
def store(server: GeminiServer, tmp_path: Path) -> models.Store:
    scope = scope_of(UserFactory())
    store = create_named_store(scope=scope, display_name="Guides", backend="gemini")
    path = tmp_path / "guide.txt"
    path.write_text(WARRANTY, encoding="utf-8")
    upload = Upload(path, "guide.txt", "", ChunkRule(), {"lang": "en"})
    upload_document(
        scope=scope, store=store, upload=upload, deadline=Deadline(10), is_waiting=False
    )
    return store


def ask(text: str, scope: Scope | None = None, **options: Any) -> Any:
    values = options.pop("values", {})
    made = read_options(GeminiFileSearchSource.Options, options, of="gemini_file_search")
    query = SourceQuery(text, scope or Scope.operator(), Deadline(10), SourceContext(), values)
    return GeminiFileSearchSource(made).retrieve(query)


class TestGeminiFileSearchSource(SourceContract):
    plugin = GeminiFileSearchSource
    options = {"store": "guides"}
    secrets = {"gemini": KEY}

    @pytest.fixture(autouse=True)
    def _server(self, server: GeminiServer) -> None:
        self.server = server

    def ports(self) -> Any:
        return SourceContext()

    def leave_thread(self) -> None:
        connections.close_all()

    def query_with_hits(self) -> str:
        return "How long does the warranty last?"

    def query_without_hits(self) -> str:
        return "zzz qqq"

    def hidden_query(self) -> str:
        return "How long does the warranty last?"

    def slow_query(self) -> str:
        self.server.fail(Fault(delay_s=4.0, on="generateContent"))
        return "How long does the warranty last?"

    def failing_query(self) -> str:
        body = {"error": {"code": 400, "message": f"bad {KEY}", "status": "INVALID_ARGUMENT"}}
        self.server.fail(Fault(400, body, times=9, on="generateContent"))
        return "How long does the warranty last?"


def test_hits_are_the_chunks_that_were_used_and_the_first_has_the_answer() -> None:
    result = ask("How long does the warranty last?", store="guides")
    (hit,) = result.hits
    assert (hit.text, hit.file_name, hit.score) == (WARRANTY, "guide.txt", None)
    assert "two years" in hit.data["answer"] and hit.data["model"] == "gemini:gemini-2.5-flash"
    assert hit.metadata["lang"] == "en"


def test_a_filter_and_a_number_of_chunks_go_along(server: GeminiServer) -> None:
    found = ask("warranty", store="guides", metadata_filter='lang = "zh"', top_k=3)
    assert found.hits == ()
    sent = server.calls[-1].json["tools"][0]["fileSearch"]
    assert sent["top_k"] == 3 and sent["metadata_filter"] == 'lang = "zh"'


def test_a_store_of_ours_and_files_are_asked_alike() -> None:
    local = StoreFactory(slug="local")
    publish(FileFactory(store=local, name="a.txt"), WARRANTY)
    (hit,) = ask("How long does the warranty last?", store="local").hits
    assert (hit.text, hit.source) == (WARRANTY, "gemini_file_search")
    files = [{"name": "b.txt", "url": "data:,The%20lamp%20is%20blue."}]
    (hit,) = ask("What is blue?", files_from="files", values={"files": files}).hits
    assert hit.file_name == "b.txt" and hit.text == hit.data["answer"]


def test_what_it_is_told_must_make_sense() -> None:
    for options in ({}, {"store": " "}, {"store": "guides", "files_from": "files"}):
        with pytest.raises(InvalidInputError, match="either stores or files"):
            ask("x", **options)
    with pytest.raises(InvalidInputError, match="holds no file"):
        ask("x", files_from="files", values={"files": "text"})
    with pytest.raises(NotFoundError):
        ask("x", store="nowhere")
    StoreFactory(slug="local")
    with pytest.raises(InvalidInputError, match="kept in different places"):
        ask("x", stores=["guides", "local"])


def test_a_stranger_may_not_ask() -> None:
    with pytest.raises(NotFoundError):
        ask("warranty", Scope.anonymous(), store="guides")
