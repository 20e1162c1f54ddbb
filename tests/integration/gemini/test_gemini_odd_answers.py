"""Answers with status 200 that are none of Gemini's, at every step where one may come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import ProviderError
from rag.core.file_search import GroundedQuestion
from rag.core.ports import ChatRequest
from rag.core.types import Message
from rag.providers.gemini.chat import GeminiChatModel
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.gemini.embedder import GeminiEmbedder
from rag.providers.gemini.file_search import GeminiFileSearch
from tests.contract_file_search import pieces_of
from tests.fakes.gemini_server import GeminiServer
from tests.fakes.loopback import Fault
from tests.integration.gemini_world import KEY, ask, backend, filled_store, sent_file, upload_of

UNREADABLE = "answered with something that is no answer of a model"
# The steps of all calls: which request is answered oddly, while what is called.
STEPS = {
    "create": "POST .*/fileSearchStores.$",
    "get": "GET .*/fileSearchStores/[^/]+.$",
    "list": "GET .*/fileSearchStores.pageSize",
    "documents": "GET .*/documents.pageSize",
    "delete": "DELETE .*/fileSearchStores/[^/]+.force",
    "delete_document": "DELETE .*/documents/",
    "upload": "uploadToFileSearchStore.$",
    "upload bytes": "uploadToFileSearchStore.upload_id",
    "upload operation": "/operations/",
    "upload document": "GET .*/documents/",
    "answer": ":generateContent",
    "stream": ":streamGenerateContent",
    "files": "/upload/.*/files.$",
    "files bytes": "/upload/.*/files.upload_id",
    "files state": "GET .*/files/",
}
BODIES = {
    "page": b"<html>log in</html>",
    "page after a blank": b"\n <!doctype html>",
    "nothing": b"",
    "null": b"null",
    "list": b"[]",
    "number": b"5",
    "cut": b'{"name": "fileSea',
    "error": b'{"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}',
}


@pytest.fixture(scope="module")
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        server.files.modes.n_polls = 1
        yield server


@pytest.fixture
def search(server: GeminiServer) -> Iterator[GeminiFileSearch]:
    yield backend(server, inline_bytes=0)
    server.faults.clear()


@pytest.fixture
def act(search: GeminiFileSearch, tmp_path: Path) -> Callable[[str], object]:
    """Call what the first word of a step names, on a store with one document."""
    store = filled_store(search, tmp_path, guide="The warranty lasts two years.")
    document = search.list_documents(store)[0].name
    upload = upload_of(tmp_path / "more.txt", "More.")
    sent = GroundedQuestion("Warranty?", files=[sent_file(tmp_path / "sent.txt")])
    acts: dict[str, Callable[[], object]] = {
        "create": lambda: search.create_store("New"),
        "get": lambda: search.get_store(store),
        "list": search.list_stores,
        "documents": lambda: search.list_documents(store),
        "delete": lambda: search.delete_store(store),
        "delete_document": lambda: search.delete_document(document),
        "upload": lambda: search.upload(store, upload, deadline=Deadline(3.0)),
        "answer": lambda: search.answer(ask(store), deadline=Deadline(3.0)),
        "stream": lambda: asyncio.run(pieces_of(search.stream(ask(store), deadline=Deadline(3.0)))),
        "files": lambda: search.answer(sent, deadline=Deadline(3.0)),
    }
    return lambda step: acts[step.split()[0]]()


@pytest.mark.parametrize("body", ["page", "null", "number"])
@pytest.mark.parametrize("step", STEPS)
def test_each_step_ends_in_one_clear_error(
    server: GeminiServer, act: Callable[[str], object], step: str, body: str
) -> None:
    server.fail(Fault(200, BODIES[body], times=99, on=STEPS[step]))
    with pytest.raises(ProviderError) as caught:
        act(step)
    said = f"{caught.value} {caught.value.detail}"
    is_unacknowledged = step.endswith("bytes") and body != "page"
    is_eventless = step == "stream" and body == "null"
    if is_unacknowledged or is_eventless:
        assert re.search("was not acknowledged|broke off", said)
    else:
        assert UNREADABLE in said
        assert ("a web page" in caught.value.detail) == (body == "page")
    server.faults.clear()
    assert not server.files.files
    assert all(len(store.documents) <= 1 for store in server.files.stores.values())


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("step", ["delete", "delete_document", "documents", "get"])
def test_what_only_seems_to_be_done_or_empty_is_an_error(
    server: GeminiServer, act: Callable[[str], object], step: str, body: str
) -> None:
    server.fail(Fault(200, BODIES[body], times=9, on=STEPS[step]))
    with pytest.raises(ProviderError, match=UNREADABLE):
        act(step)
    server.faults.clear()
    assert act("documents")


@pytest.mark.parametrize("step", ["create", "get"])
def test_a_store_without_a_name_is_none(
    server: GeminiServer, act: Callable[[str], object], step: str
) -> None:
    server.fail(Fault(200, b"{}", on=STEPS[step]))
    with pytest.raises(ProviderError, check=lambda e: "a store without a name" in e.detail):
        act(step)


def test_a_copy_whose_deletion_a_page_answered_is_told_of(
    server: GeminiServer, act: Callable[[str], object]
) -> None:
    server.fail(Fault(200, BODIES["page"], times=9, on="DELETE .*/files/"))
    answer = act("files")
    assert answer.notice.startswith("Gemini keeps copies of 1 files")  # type: ignore[attr-defined]
    assert len(server.files.files) == 1
    server.files.files.clear()


@pytest.mark.parametrize("body", BODIES)
def test_chat_and_embeddings_refuse_them_too(server: GeminiServer, body: str) -> None:
    endpoint = GeminiEndpoint(KEY, server.url)
    request = ChatRequest([Message("user", "Warranty?")], timeout_s=3.0)
    server.fail(Fault(200, BODIES[body], times=2, on="POST"))
    with pytest.raises(ProviderError, match=UNREADABLE):
        GeminiChatModel("m", endpoint).generate(request)
    with pytest.raises(ProviderError, match=UNREADABLE):
        GeminiEmbedder("gemini-embedding-001", endpoint).embed_query("Warranty?")
    assert not server.faults
