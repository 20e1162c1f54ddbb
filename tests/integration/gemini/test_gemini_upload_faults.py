"""Uploads into Gemini's stores that go wrong or are cancelled, and what stays when they do."""

from __future__ import annotations

import time
from collections.abc import Iterator
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
from rag.providers.gemini.file_search import GeminiFileSearch
from tests.fakes.gemini_server import GeminiServer, error
from tests.fakes.loopback import Fault
from tests.integration.gemini_world import KEY, act_when, backend, upload_of

MB = 1024 * 1024
PIECE = 8 * MB
# The start request has no upload_id, the pieces have one.
BYTES, POLL, LIST = "upload_id=", "GET .*/upload/operations/", r"GET .*/documents\?"


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


@pytest.fixture
def search(server: GeminiServer) -> GeminiFileSearch:
    return backend(server)


@pytest.fixture
def store(search: GeminiFileSearch) -> str:
    return search.create_store("Store").name


def pieces(server: GeminiServer) -> list[tuple[str, int, int]]:
    """Return command, offset and length of each piece that was sent."""
    return [
        (
            call.headers["x-goog-upload-command"],
            int(call.headers["x-goog-upload-offset"]),
            int(call.headers["content-length"]),
        )
        for call in server.calls
        if "x-goog-upload-offset" in call.headers
    ]


def test_an_upload_cut_off_once_is_sent_again(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    modes = server.files.modes
    modes.cut_at, modes.n_cuts = 0.6, 1
    told: list[float] = []
    upload = upload_of(tmp_path / "large.txt", b"line\n" * (20 * MB), on_progress=told.append)
    document = search.upload(store, upload, deadline=Deadline(60.0))
    assert document.state == "active"
    sent = [length for _, _, length in pieces(server)]
    # Seven pieces are half, the eighth is lost.
    assert sum(sent[:8]) == 8 * PIECE and sum(sent[8:]) == 100 * MB
    assert told == sorted(told)
    assert len(search.list_documents(store)) == 1


def test_an_upload_cut_off_for_good_leaves_nothing(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    modes = server.files.modes
    modes.cut_at, modes.n_cuts = 0.6, 99
    upload = upload_of(tmp_path / "a.txt", b"a" * (20 * MB))
    with pytest.raises(ProviderError, match=r"The connection to Gemini.* failed"):
        search.upload(store, upload, deadline=Deadline(20.0))
    assert search.list_documents(store) == []


def test_a_success_whose_answer_was_lost_is_found_and_not_repeated(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    modes = server.files.modes
    modes.cut_at, modes.n_cuts, modes.is_kept = 1.0, 1, True
    document = search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
    assert [found.name for found in search.list_documents(store)] == [document.name]
    assert len(pieces(server)) == 1


def test_the_pieces_are_not_sent_four_times_with_pauses(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    # Left alone, the SDK pauses 1 + 2 + 4 s for each answer without the header.
    server.files.modes.has_status = False
    started = time.monotonic()
    document = search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
    assert time.monotonic() - started < 1.0
    # The bytes had arrived all the same, and are not sent again.
    assert [found.name for found in search.list_documents(store)] == [document.name]
    assert len(pieces(server)) == 1
    server.fail(Fault(200, b"", times=99, on=BYTES))
    with pytest.raises(ProviderError, check=lambda e: "was not acknowledged" in e.detail):
        search.upload(store, upload_of(tmp_path / "b.txt"), deadline=Deadline(5.0))
    assert len(search.list_documents(store)) == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(400, error(400, "INVALID_ARGUMENT", "Odd bytes.").body), "HTTP 400"),
        (Fault(503, error(503, "UNAVAILABLE", "Later.").body, times=9), "HTTP 503"),
    ],
)
def test_an_error_of_a_piece_is_the_service_s_own(
    server: GeminiServer,
    search: GeminiFileSearch,
    store: str,
    tmp_path: Path,
    fault: Fault,
    words: str,
) -> None:
    started = time.monotonic()
    server.fail(Fault(fault.status, fault.body, times=fault.times, on=BYTES))
    with pytest.raises(ProviderError, match=words):
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
    assert time.monotonic() - started < 1.0
    assert search.list_documents(store) == []


def test_a_start_without_an_address_is_an_unreadable_answer(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.has_url = False
    with pytest.raises(ProviderError, check=lambda e: "Upload URL was not returned" in e.detail):
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))


@pytest.mark.parametrize("when", ["start", "end"])
def test_a_missing_store_is_noticed_at_either_end(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path, when: str
) -> None:
    server.files.modes.missing_store = when
    with pytest.raises(NotFoundError, match="has no fileSearchStores/gone"):
        search.upload("fileSearchStores/gone", upload_of(tmp_path / "a"), deadline=Deadline(5.0))


@pytest.mark.parametrize("operation", ["never", "gone"])
def test_a_document_is_active_though_its_operation_never_says_so(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path, operation: str
) -> None:
    for n in range(25):
        search.upload(store, upload_of(tmp_path / f"{n}.txt"), deadline=Deadline(5.0))
    server.files.modes.operation = operation
    document = search.upload(store, upload_of(tmp_path / "last.txt"), deadline=Deadline(5.0))
    assert (document.state, document.display_name) == ("active", "last.txt")


def test_what_never_becomes_active_ends_with_the_deadline_and_is_deleted(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.operation, server.files.modes.document = "never", "pending"
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError) as caught:
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(1.5))
    assert 1.2 < time.monotonic() - started < 1.7
    assert "did not finish indexing “a.txt” within 1.35 s" in str(caught.value)
    assert search.list_documents(store) == []


def test_a_slow_network_is_not_blamed_for_slow_indexing(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.operation, server.files.modes.document = "never", "pending"
    server.fail(Fault(delay_s=0.4, times=99, on=POLL))
    with pytest.raises(ProviderTimeoutError, match="did not finish indexing “a.txt”"):
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(1.5))
    assert search.list_documents(store) == []


def test_slow_indexing_is_waited_for(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.n_polls = 12
    assert search.upload(store, upload_of(tmp_path / "a"), deadline=Deadline(5.0)).state == "active"
    assert len([call for call in server.calls if "/operations/" in call.path]) > 6


def test_a_poll_that_fails_is_tried_again(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    body = error(503, "UNAVAILABLE", "Later.").body
    server.fail(Fault(503, body, times=2, on=POLL), Fault(cut="before", on=POLL))
    assert search.upload(store, upload_of(tmp_path / "a"), deadline=Deadline(5.0)).state == "active"


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (3, DocumentError, "cannot index “a.txt”."),
        (13, ProviderError, "failed to index “a.txt”."),
    ],
)
def test_an_operation_that_ends_with_an_error_says_whose_fault_it_is(
    server: GeminiServer,
    search: GeminiFileSearch,
    store: str,
    tmp_path: Path,
    code: int,
    kind: type[RAGError],
    words: str,
) -> None:
    modes = server.files.modes
    modes.operation, modes.operation_error = "error", (code, "The file is damaged.")
    with pytest.raises(kind) as caught:
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
    assert words in str(caught.value) and caught.value.detail == "The file is damaged."
    assert search.list_documents(store) == []


def test_a_document_that_turns_failed_is_reported_and_deleted(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.document = "failed"
    with pytest.raises(DocumentError, match="cannot index “a.txt”[.] Check that it opens"):
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
    assert search.list_documents(store) == []
    assert search.get_store(store).n_failed == 0


def test_a_store_deleted_while_it_indexes_is_said_to_be_gone(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.n_polls = 10_000
    act_when(server, POLL, server.files.stores.clear)
    with pytest.raises(NotFoundError, match=f"has no {store}"):
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))


@pytest.mark.parametrize("where", ["start", "bytes", "wait"])
def test_cancelling_wakes_an_upload_wherever_it_is_and_leaves_nothing(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path, where: str
) -> None:
    pattern = {"start": "POST /upload", "bytes": "upload_id", "wait": POLL}[where]
    if where == "wait":
        server.files.modes.n_polls = 10_000
    else:
        server.fail(Fault(delay_s=30.0, on=pattern))
    deadline = Deadline(30.0)
    act_when(server, pattern, deadline.cancel)
    started = time.monotonic()
    with pytest.raises(CancelledError):
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=deadline)
    assert time.monotonic() - started < 1.5
    assert where == "wait" or server.gone.wait(2.0)
    assert search.list_documents(store) == []


def test_what_could_not_be_deleted_is_named(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.document = "failed"
    server.fail(Fault(500, error(500, "INTERNAL", "No.").body, times=9, on="DELETE"))
    with pytest.raises(DocumentError) as caught:
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
    server.faults.clear()
    (document,) = search.list_documents(store)
    assert f"Gemini may still hold {document.name}, which could not be deleted" in str(caught.value)


def test_a_cancelled_upload_that_cannot_look_says_what_it_may_have_left(
    server: GeminiServer, store: str, tmp_path: Path
) -> None:
    server.files.modes.n_polls = 10_000
    server.fail(Fault(403, error(403, "PERMISSION_DENIED", "No.").body, times=9, on=LIST))
    deadline = Deadline(30.0)
    act_when(server, "upload_id", deadline.cancel)
    with pytest.raises(CancelledError) as caught:
        backend(server, doubt_s=60.0).upload(
            store, upload_of(tmp_path / "保固.txt"), deadline=deadline
        )
    assert f"Gemini may still hold {store}: 保固.txt" in str(caught.value)
