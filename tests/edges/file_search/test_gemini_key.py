"""The key of Gemini is nowhere to be read: logs, tracebacks, error bodies, admin pages, rows."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import RequestFactory
from django.views.debug import ExceptionReporter

from rag import models
from rag.conf import conf
from rag.services.ingest.indexing import index_file
from tests.edges.admin_client import at, client_of, post_action, use_words_embedder
from tests.edges.api_client import client_for
from tests.edges.node_client import KEY, events, new_store, post, send, use_gemini
from tests.factories import UserFactory
from tests.fakes.gemini_server import GeminiServer, Script
from tests.fakes.loopback import Fault

pytestmark = pytest.mark.django_db
QUESTION = "How long does the warranty last?"
# A service that quotes the key back, as proxies do.
ECHO = {"error": {"code": 400, "message": f"key {KEY} is bad", "status": "INVALID_ARGUMENT"}}
FAULTS = {
    "echoed": Fault(400, ECHO, times=99),
    "denied": Fault(403, ECHO, times=99),
    "overloaded": Fault(503, ECHO, times=99),
    "html": Fault(200, f"<html>{KEY}</html>".encode(), times=99),
    "dropped": Fault(cut="before", times=99),
    "hang": Fault(delay_s=0.5, times=99),
}


@pytest.fixture
def server(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[GeminiServer]:
    use_words_embedder(monkeypatch, settings)
    with GeminiServer() as server:
        use_gemini(settings, server)
        yield server


@pytest.mark.parametrize("name", FAULTS)
def test_no_failure_shows_it(
    server: GeminiServer, caplog: pytest.LogCaptureFixture, settings: Any, name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    boss = UserFactory(is_superuser=True)
    client, admin = client_for(boss), client_of(boss)
    store = new_store(client, backend="gemini")
    send(client, store, "a.txt", b"The warranty lasts two years.")
    server.fail(FAULTS[name])
    settings.RAG = {**settings.RAG, "TIMEOUT_S": 0.2}
    asked = {"mode": "fileSearch", "query": QUESTION, "fileSearchStoreName": store}
    files = [{"name": "x.txt", "url": "data:,words"}]
    seen = [
        post(client, "search", **asked).content.decode(),
        json.dumps(events(post(client, "search/stream", **asked))),
        post(client, "search", mode="multimodal", query="x", files=files).content.decode(),
        send(client, store, "b.txt", b"other").content.decode(),
        post(client, "store", displayName="y", backend="gemini").content.decode(),
    ]
    row = models.Store.objects.get(resource_name=store)
    index_file(file_id=models.File.objects.first().pk)  # type: ignore[union-attr]
    with pytest.raises(CommandError) as caught:
        call_command("rag_gemini_sync")
    seen.append(str(caught.value))
    pages = [
        post_action(admin, "store", "sync", [row.pk]),
        admin.get(at("rag_store_change", row.pk)),
        admin.get(at("rag_file_changelist")),
        admin.post(at("rag_store_delete", row.pk), {"post": "yes"}, follow=True),
    ]
    seen += [response.content.decode() for response in pages]
    seen += [caplog.text, rows()]
    assert len(caplog.text) > 100
    for text in seen:
        assert KEY not in text


def test_no_other_way_in_shows_it(server: GeminiServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_for(UserFactory(is_superuser=True))
    store = new_store(client, backend="gemini")
    send(client, store, "a.txt", b"The warranty lasts two years.")
    file_id = models.File.objects.get().pk
    server.fail(FAULTS["echoed"])
    asked = {"query": QUESTION, "stores": [store]}
    responses = [
        post(client, "nodes/n", fileSearchStoreName=store),
        post(client, "nodes/n/run", mockData={"query": QUESTION}),
        client.send("post", "/api/rag/ask", asked),
        client.send("delete", f"/api/files/{file_id}", {}),
        client.get("/api/files"),
        client.get("/api/stores"),
        client.get("/readyz"),
        client.get("/metrics"),
    ]
    assert [one.status_code for one in responses[:5]] == [200, 500, 502, 502, 200]
    for text in (*(response.content.decode() for response in responses), caplog.text, rows()):
        assert KEY not in text


def rows() -> str:
    """Return every text that is kept of stores, files, queries and uses."""
    found = []
    with connection.cursor() as cursor:
        for table in ("rag_store", "rag_file", "rag_querylog", "rag_usagerecord", "rag_ragnode"):
            cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t")
            found.append(str(cursor.fetchone()[0]))
    return "\n".join(found)


def test_a_developer_s_page_of_a_crash_does_not_show_it(
    server: GeminiServer, settings: Any
) -> None:
    settings.DEBUG = True
    try:
        _crash(conf())
    except ZeroDivisionError:
        reporter = ExceptionReporter(RequestFactory().post("/api/rag/search"), *sys.exc_info())
    for report in (reporter.get_traceback_text(), reporter.get_traceback_html()):
        assert "ZeroDivisionError" in report and KEY not in report


def _crash(settings: Any) -> float:
    # The settings are a local value of this frame, which the page shows.
    return 1 / (len(settings.gemini_api_key) - len(KEY))


def test_a_stream_that_breaks_and_a_blocked_answer_do_not_show_it(
    server: GeminiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_for(UserFactory(is_superuser=True))
    store = new_store(client, backend="gemini")
    asked = {"mode": "fileSearch", "query": QUESTION, "fileSearchStoreName": store}
    for script in (
        Script(pieces=("half",), ending="drop"),
        Script(pieces=("half",), ending="error"),
        Script(pieces=("half",), ending="cut"),
        Script(kind="blocked"),
        Script(kind="html"),
    ):
        server.chat = script
        told = events(post(client, "search/stream", **asked))
        assert told[-1][0] == "error"
        assert KEY not in json.dumps(told)
    assert KEY not in caplog.text
