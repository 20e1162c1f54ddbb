"""What may go wrong between us and Gemini's stores; each ends in time, in words that help."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    DocumentError,
    NotFoundError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.file_search import GroundedQuestion
from rag.providers.gemini.file_search import GeminiFileSearch
from tests.contract_file_search import pieces_of
from tests.fakes.gemini_server import GeminiServer, Script, error, retry_info
from tests.fakes.loopback import Fault
from tests.integration.gemini_world import KEY, ask, backend, filled_store, told, upload_of

BUSY = error(503, "UNAVAILABLE", "The service is overloaded.").body
BROKEN = error(500, "INTERNAL", "An internal error has occurred.").body


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


@pytest.fixture
def search(server: GeminiServer) -> GeminiFileSearch:
    return backend(server)


def quota(delay: str) -> Fault:
    message = "You exceeded your current quota."
    body = error(429, "RESOURCE_EXHAUSTED", message, [retry_info(delay)]).body
    return Fault(429, body)


@pytest.fixture
def calls(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> dict[str, Callable[[], object]]:
    """Every way to call, ready to be called while something goes wrong."""
    store = filled_store(search, tmp_path, guide="The warranty lasts two years.")
    document = search.list_documents(store)[0].name
    upload = upload_of(tmp_path / "more.txt", "More.")
    return {
        "create": lambda: search.create_store("New"),
        "get": lambda: search.get_store(store),
        "list": search.list_stores,
        "documents": lambda: search.list_documents(store),
        "upload": lambda: search.upload(store, upload, deadline=Deadline(3.0)),
        "answer": lambda: search.answer(ask(store), deadline=Deadline(3.0)),
        "delete_document": lambda: search.delete_document(document),
        "delete": lambda: search.delete_store(store),
    }


CALLS = (
    "create",
    "get",
    "list",
    "documents",
    "upload",
    "answer",
    "delete_document",
    "delete",
)


@pytest.mark.parametrize("name", CALLS)
def test_two_failures_are_got_over(
    server: GeminiServer, calls: dict[str, Callable[[], object]], name: str
) -> None:
    server.fail(Fault(500, BROKEN, times=2))
    calls[name]()
    assert server.faults == []


@pytest.mark.parametrize("name", CALLS)
def test_a_service_that_stays_busy_is_said_to_be(
    server: GeminiServer, calls: dict[str, Callable[[], object]], name: str
) -> None:
    server.fail(Fault(503, BUSY, times=99))
    started = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        calls[name]()
    assert time.monotonic() - started < 3.0
    assert "failed (HTTP 503)." in str(caught.value)
    assert caught.value.detail == "The service is overloaded."
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", CALLS)
def test_the_key_that_is_not_accepted_is_named_by_its_setting_only(
    server: GeminiServer, calls: dict[str, Callable[[], object]], name: str
) -> None:
    server.key = "another"
    with pytest.raises(ProviderError) as caught:
        calls[name]()
    assert "did not accept the key" in str(caught.value)
    assert "GEMINI_API_KEY" in str(caught.value)
    assert KEY not in told(caught.value)


def test_the_service_s_own_wish_to_wait_is_heeded(
    server: GeminiServer, calls: dict[str, Callable[[], object]]
) -> None:
    server.fail(quota("0.4s"))
    started = time.monotonic()
    calls["answer"]()
    assert time.monotonic() - started >= 0.4
    server.fail(Fault(429, b"", {"Retry-After": "0.3"}))
    started = time.monotonic()
    calls["upload"]()
    assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize("name", ["upload", "answer"])
def test_a_wish_beyond_the_deadline_ends_the_call_at_once(
    server: GeminiServer, calls: dict[str, Callable[[], object]], name: str
) -> None:
    server.fail(quota("17s"))
    started = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        calls[name]()
    assert time.monotonic() - started < 1.5
    assert "busy, or the quota is used up (HTTP 429)" in str(caught.value)


def test_the_storage_of_the_account_may_be_full(
    server: GeminiServer, calls: dict[str, Callable[[], object]]
) -> None:
    server.files.modes.quota_bytes = 10
    with pytest.raises(ProviderError, check=lambda e: "exceeded the storage" in e.detail):
        calls["upload"]()


@pytest.mark.parametrize("name", ["upload", "answer"])
def test_a_hang_ends_with_the_deadline(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path, name: str
) -> None:
    store = filled_store(search, tmp_path)
    upload = upload_of(tmp_path / "a.txt")
    server.fail(Fault(delay_s=30.0, times=99))
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match="answer within"):
        if name == "upload":
            search.upload(store, upload, deadline=Deadline(1.0))
        else:
            search.answer(ask(store), deadline=Deadline(1.0))
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("name", CALLS)
def test_a_web_page_is_no_answer(
    server: GeminiServer, calls: dict[str, Callable[[], object]], name: str
) -> None:
    page = Fault(200, b"<html>log in</html>", {"Content-Type": "text/html"}, times=9)
    n_before = len(server.calls)
    server.fail(page)
    with pytest.raises(ProviderError) as caught:
        calls[name]()
    assert "is no answer of a model." in str(caught.value) and caught.value.detail == "a web page"
    # No stubbornness: a login page does not go away.
    assert len(server.calls) - n_before <= 2


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(kind="blocked"), "blocked the question or the texts sent with it (SAFETY)"),
        (Script(pieces=(), finish_reason="MAX_TOKENS"), "used up its tokens before the first"),
        (Script(pieces=(), finish_reason="SAFETY"), "A content filter of Gemini"),
        (Script(pieces=()), "gave an empty answer"),
        (Script(kind="no_candidates"), "gave an empty answer"),
    ],
)
def test_an_answer_without_text_says_why(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path, script: Script, words: str
) -> None:
    store = filled_store(search, tmp_path)
    server.chat = script
    with pytest.raises(ProviderError) as caught:
        search.answer(ask(store), deadline=Deadline(3.0))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(ending="drop"), "The connection to Gemini"),
        (Script(ending="cut"), "answered with something that is no answer"),
        (Script(ending="quiet"), "the answer broke off"),
        (Script(ending="error"), "failed (HTTP 503)"),
        (Script(ending="hang"), "did not answer within 0.5 s"),
        (Script(kind="html"), "answered with something that is no answer"),
        (Script(kind="blocked"), "blocked the question"),
        (Script(pieces=(), finish_reason="MAX_TOKENS"), "used up its tokens"),
    ],
)
async def test_a_stream_that_breaks_says_so(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path, script: Script, words: str
) -> None:
    store = filled_store(search, tmp_path, guide="The warranty lasts two years.")
    server.chat = script
    patient = backend(server, timeout_s=0.5)
    with pytest.raises(ProviderError) as caught:
        await pieces_of(patient.stream(ask(store), deadline=Deadline(3.0)))
    assert words in f"{caught.value} {caught.value.detail}"
    assert KEY not in told(caught.value)


async def test_a_stream_ends_with_its_deadline_or_when_it_is_cancelled(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, guide="The warranty lasts two years.")
    server.chat = Script(ending="hang")
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError):
        await pieces_of(search.stream(ask(store), deadline=Deadline(0.7)))
    assert 0.6 < time.monotonic() - started < 1.2
    assert server.gone.wait(2.0)
    server.gone.clear()
    deadline = Deadline(30.0)
    threading.Timer(0.3, deadline.cancel).start()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        await pieces_of(search.stream(ask(store), deadline=deadline))
    assert time.monotonic() - started < 1.0
    assert server.gone.wait(2.0)


async def test_leaving_a_stream_closes_its_connection(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, guide="The warranty lasts two years.")
    server.chat = Script(ending="hang")
    stream = search.stream(ask(store), deadline=Deadline(30.0))
    assert (await anext(stream)).text
    await stream.aclose()  # type: ignore[attr-defined]
    assert server.gone.wait(2.0)


@pytest.mark.parametrize("status", [404, 403])
def test_a_store_deleted_behind_our_back_is_said_to_be_gone(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path, status: int
) -> None:
    store = filled_store(search, tmp_path, guide="The warranty lasts two years.")
    document = search.list_documents(store)[0].name
    server.files.modes.missing_status = status
    del server.files.stores[store]
    upload = upload_of(tmp_path / "a.txt")
    for act in (
        lambda: search.get_store(store),
        lambda: search.list_documents(store),
        lambda: search.upload(store, upload, deadline=Deadline(2.0)),
        lambda: search.answer(ask(store), deadline=Deadline(2.0)),
    ):
        with pytest.raises(NotFoundError) as caught:
            act()
        assert str(caught.value).startswith("Gemini at 127.0.0.1")
        assert f"has no {store}." in str(caught.value)
    search.delete_document(document)
    search.delete_store(store)


async def test_a_store_that_is_gone_ends_a_stream_too(search: GeminiFileSearch) -> None:
    with pytest.raises(NotFoundError):
        await pieces_of(search.stream(ask("fileSearchStores/gone"), deadline=Deadline(2.0)))


def test_a_missing_model_or_api_version_is_no_missing_store(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path)
    message = "models/x is not found for API version v1beta, or is not supported."
    server.fail(Fault(404, error(404, "NOT_FOUND", message).body, times=2))
    for act in (
        lambda: search.get_store(store),
        lambda: search.answer(ask(store), deadline=Deadline(2.0)),
    ):
        with pytest.raises(ProviderError, match="does not know the address or the model"):
            act()


def test_a_store_whose_making_was_not_confirmed_is_not_made_twice(
    server: GeminiServer, search: GeminiFileSearch
) -> None:
    server.fail(Fault(cut="before"))
    with pytest.raises(ProviderError, match=r"The connection to Gemini.* failed"):
        search.create_store("Once")
    assert len(server.calls) == 1
    server.fail(Fault(delay_s=30.0))
    with pytest.raises(ProviderTimeoutError) as caught:
        backend(server, timeout_s=0.3).create_store("Unsure")
    assert "Gemini may have made “Unsure” all the same" in str(caught.value)


def test_the_key_is_in_no_error_log_or_repr(
    server: GeminiServer, calls: dict[str, Callable[[], object]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    quoting = error(400, "INVALID_ARGUMENT", f"The key {KEY} is odd.").body
    faults = [
        Fault(400, quoting),
        Fault(403, quoting),
        Fault(404, quoting),
        Fault(503, quoting, times=4),
        Fault(200, f"<html>{KEY}</html>".encode()),
        Fault(200, KEY.encode()),
        Fault(302, quoting),
        Fault(cut="before", times=4),
        Fault(cut="middle", times=4),
    ]
    n_errors = 0
    for name in ("get", "documents", "upload", "answer", "list"):
        for fault in faults:
            server.fail(Fault(fault.status, fault.body, cut=fault.cut, times=fault.times))
            try:
                calls[name]()
            except RAGError as raised:
                n_errors += 1
                assert KEY not in told(raised)
            server.faults.clear()
    assert n_errors >= 40
    assert KEY not in caplog.text
    assert KEY not in repr(backend(server)) + repr(vars(backend(server)))


def test_an_answer_over_files_needs_no_store(search: GeminiFileSearch, tmp_path: Path) -> None:
    with pytest.raises(RAGError, match="either to stores or to files"):
        GroundedQuestion("?")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "fileSearchStores/",
        "fileSearchStores/../models/m",
        "fileSearchStores/a/b",
        "fileSearchStores/a?b",
    ],
)
def test_what_is_no_name_of_a_store_never_gets_into_an_address(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path, name: str
) -> None:
    upload = upload_of(tmp_path / "a.txt")
    for act in (
        lambda: search.get_store(name),
        lambda: search.delete_store(name),
        lambda: search.list_documents(name),
        lambda: search.upload(name, upload, deadline=Deadline(1.0)),
        lambda: search.answer(ask(name), deadline=Deadline(1.0)),
        lambda: search.delete_document(f"{name}/documents/d"),
    ):
        with pytest.raises(RAGError, match="is no resource name of Gemini"):
            act()
    assert server.calls == []


def test_a_broken_file_is_blamed_and_not_the_service(
    search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path)
    upload = upload_of(tmp_path / "a.pdf", b"%PDF-1.7 broken")
    with pytest.raises(DocumentError, match="cannot index “a.pdf”"):
        search.upload(store, upload, deadline=Deadline(3.0))
    assert search.list_documents(store) == []
