"""The faked stores and files of Gemini, as the google-genai SDK by itself sees them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from tests.fakes.gemini_server import GeminiServer
from tests.integration.gemini_sdk import TEXT, client_of, made, put, refused

MB = 1024 * 1024


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.files.modes.n_polls = 0
        yield server


@pytest.fixture(params=["v1", "v1beta"])
def sdk(server: GeminiServer, request: pytest.FixtureRequest) -> genai.Client:
    return client_of(server, request.param)


@pytest.fixture
def beta(server: GeminiServer) -> genai.Client:
    return client_of(server, "v1beta")


def test_stores_are_made_listed_counted_and_deleted(
    server: GeminiServer, sdk: genai.Client
) -> None:
    store = sdk.file_search_stores.create(config={"display_name": "Product Docs 产品"})
    assert (store.name or "").startswith("fileSearchStores/product-docs-")
    assert len((store.name or "").removeprefix("fileSearchStores/")) <= 40
    assert (store.display_name, store.embedding_model) == (
        "Product Docs 产品",
        "models/gemini-embedding-001",
    )
    assert store.create_time is not None and store.create_time.tzinfo is not None
    unnamed = sdk.file_search_stores.create()
    assert unnamed.display_name is None and unnamed.name != store.name
    put(sdk, store.name or "")
    found = sdk.file_search_stores.get(name=store.name or "")
    assert (found.active_documents_count, found.pending_documents_count) == (1, None)
    assert found.size_bytes == len(TEXT.encode())
    assert [one.name for one in sdk.file_search_stores.list()] == [store.name, unnamed.name]
    with pytest.raises(errors.ClientError) as caught:
        sdk.file_search_stores.delete(name=store.name or "")
    assert refused(caught) == (400, "FAILED_PRECONDITION")
    sdk.file_search_stores.delete(name=store.name or "", config={"force": True})
    sdk.file_search_stores.delete(name=unnamed.name or "")
    assert list(sdk.file_search_stores.list()) == []
    with pytest.raises(errors.ClientError) as caught:
        sdk.file_search_stores.get(name=store.name or "")
    assert refused(caught) == (404, "NOT_FOUND")


def test_pages_are_ten_and_at_most_twenty(server: GeminiServer, beta: genai.Client) -> None:
    names = [made(beta, f"s{n}") for n in range(23)]
    assert len(beta.file_search_stores.list().page) == 10
    assert [one.name for one in beta.file_search_stores.list(config={"page_size": 20})] == names
    with pytest.raises(errors.ClientError) as caught:
        beta.file_search_stores.list(config={"page_size": 21})
    assert refused(caught) == (400, "INVALID_ARGUMENT")
    sizes = [call.query.get("pageSize") for call in server.calls if call.method == "GET"]
    assert sizes == [None, "20", "20", "21"]


def test_documents_are_uploaded_listed_read_and_deleted(sdk: genai.Client) -> None:
    store = made(sdk)
    operation = put(
        sdk,
        store,
        custom_metadata=[
            {"key": "lang", "string_value": "zh"},
            {"key": "year", "numeric_value": 2025},
            {"key": "tags", "string_list_value": {"values": ["a", "b"]}},
        ],
    )
    assert operation.name.startswith(f"{store}/upload/operations/a-txt-")
    while not operation.done:
        operation = sdk.operations.get(operation)
    name = operation.response.document_name
    (listed,) = sdk.file_search_stores.documents.list(parent=store)
    found = sdk.file_search_stores.documents.get(name=name)
    assert listed == found
    assert (found.display_name, found.mime_type) == ("a.txt", "text/plain")
    assert found.state == types.DocumentState.STATE_ACTIVE
    assert found.size_bytes == len(TEXT.encode())
    held = {one.key: one for one in found.custom_metadata or ()}
    assert (held["lang"].string_value, held["year"].numeric_value) == ("zh", 2025.0)
    tags = held["tags"].string_list_value
    assert tags is not None and tags.values == ["a", "b"]
    with pytest.raises(errors.ClientError) as caught:
        sdk.file_search_stores.documents.delete(name=name)
    assert refused(caught) == (400, "FAILED_PRECONDITION")
    sdk.file_search_stores.documents.delete(name=name, config={"force": True})
    with pytest.raises(errors.ClientError) as caught:
        sdk.file_search_stores.documents.get(name=name)
    assert refused(caught) == (404, "NOT_FOUND")


def test_an_operation_has_no_word_of_being_done_while_it_runs(
    server: GeminiServer, beta: genai.Client
) -> None:
    server.files.modes.n_polls = 2
    operation = put(beta, made(beta))
    seen = [operation.done]
    for _ in range(3):
        operation = beta.operations.get(operation)
        seen.append(operation.done)
    assert seen == [None, None, None, True]
    server.files.modes.operation = "never"
    endless = put(beta, made(beta))
    assert {beta.operations.get(endless).done for _ in range(9)} == {None}
    document = list(server.files.stores.values())[-1].documents.popitem()[1]
    assert document.state == "STATE_ACTIVE"


def test_operations_and_documents_fail_as_told(server: GeminiServer, beta: genai.Client) -> None:
    server.files.modes.operation = "error"
    operation = beta.operations.get(put(beta, made(beta)))
    assert operation.done and operation.error == {"code": 3, "message": "The file is damaged."}
    server.files.modes.operation = "done"
    server.files.modes.document = "failed"
    store = made(beta)
    put(beta, store)
    beta.file_search_stores.documents.list(parent=store)
    assert beta.file_search_stores.get(name=store).failed_documents_count == 1
    server.files.modes.operation = "gone"
    with pytest.raises(errors.ClientError) as caught:
        beta.operations.get(operation)
    assert refused(caught) == (404, "NOT_FOUND")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00bad", b"%PDF-1.7 broken", b"PK\x03\x04"])
def test_what_cannot_be_read_becomes_a_failed_document(beta: genai.Client, data: bytes) -> None:
    kind = {b"%": "application/pdf", b"P": types_docx()}.get(data[:1], "text/plain")
    store = made(beta)
    beta.operations.get(put(beta, store, data, mime_type=kind))
    assert beta.file_search_stores.get(name=store).failed_documents_count == 1


def types_docx() -> str:
    return "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    "config",
    [
        {"display_name": "n" * 513},
        {"custom_metadata": [{"key": f"k{n}", "string_value": "v"} for n in range(21)]},
        {"chunking_config": {"white_space_config": {"max_tokens_per_chunk": 20}}},
        {"chunking_config": {"white_space_config": {"max_tokens_per_chunk": 513}}},
        {
            "chunking_config": {
                "white_space_config": {"max_tokens_per_chunk": 50, "max_overlap_tokens": 50}
            }
        },
    ],
)
def test_limits_are_kept_at_the_start(
    server: GeminiServer, beta: genai.Client, config: dict[str, Any]
) -> None:
    store = made(beta)
    with pytest.raises(errors.ClientError) as caught:
        put(beta, store, **config)
    assert refused(caught) == (400, "INVALID_ARGUMENT")
    assert server.files.documents() == []


def test_names_of_stores_have_512_characters_at_most(beta: genai.Client) -> None:
    assert made(beta, "n" * 512)
    with pytest.raises(errors.ClientError) as caught:
        made(beta, "n" * 513)
    assert refused(caught) == (400, "INVALID_ARGUMENT")


def test_uploads_go_in_pieces_without_the_key_and_are_checked(
    server: GeminiServer, beta: genai.Client
) -> None:
    store = made(beta)
    put(beta, store, b"line\n" * (4 * MB))
    sent = [call for call in server.calls if "x-goog-upload-offset" in call.headers]
    assert [call.headers["x-goog-upload-offset"] for call in sent] == [
        "0",
        str(8 * MB),
        str(16 * MB),
    ]
    assert all("x-goog-api-key" not in call.headers for call in sent)
    assert {call.body for call in sent} == {b""}
    start = next(
        call for call in server.calls if call.headers.get("x-goog-upload-command") == "start"
    )
    url = server.url + start.path
    headers = {**start.headers, "x-goog-upload-header-content-length": str(MB)}
    begun = httpx2.post(url, headers=headers, content=start.body, trust_env=False)
    assert begun.headers["x-goog-upload-status"] == "active"
    where = begun.headers["X-Goog-Upload-URL"]

    def piece(command: str, offset: int, data: bytes = b"") -> httpx2.Response:
        words = {"X-Goog-Upload-Command": command, "X-Goog-Upload-Offset": str(offset)}
        return httpx2.post(where, headers=words, content=data, trust_env=False)

    assert piece("upload", 5, b"a" * 262_144).status_code == 400
    assert piece("upload", 0, b"a" * 100).status_code == 400
    assert piece("upload", 0, b"a" * 262_144).headers["x-goog-upload-status"] == "active"
    assert piece("query", 0).headers["x-goog-upload-size-received"] == "262144"
    assert piece("upload, finalize", 262_144, b"b").status_code == 400
    wrong = piece("upload", 262_144, b"a" * MB)
    assert (wrong.status_code, wrong.headers["x-goog-upload-status"]) == (400, "active")
    assert piece("cancel", 0).headers["x-goog-upload-status"] == "cancelled"
    over = piece("upload, finalize", 262_144, b"")
    assert (over.status_code, over.headers["x-goog-upload-status"]) == (404, "final")


def test_more_than_100_mb_and_more_than_the_quota_are_refused(
    server: GeminiServer, beta: genai.Client
) -> None:
    store = made(beta)
    with pytest.raises(errors.ClientError) as caught:
        put(beta, store, bytes(100 * MB + 1))
    assert refused(caught) == (400, "INVALID_ARGUMENT")
    server.files.modes.quota_bytes = 3 * len(TEXT.encode())
    put(beta, store)
    with pytest.raises(errors.ClientError) as caught:
        put(beta, store, "x")
    assert refused(caught) == (429, "RESOURCE_EXHAUSTED")
    assert caught.value.details["error"]["details"][0]["retryDelay"] == "17s"


def test_an_upload_without_an_address_is_a_key_error(
    server: GeminiServer, beta: genai.Client
) -> None:
    server.files.modes.has_url = False
    with pytest.raises(KeyError, match="Upload URL was not returned"):
        put(beta, made(beta))


def test_files_are_kept_read_listed_and_deleted(server: GeminiServer, sdk: genai.Client) -> None:
    server.files.modes.n_polls = 1
    config = types.UploadFileConfig(name="my-file", mime_type="text/plain", display_name="F 手册")
    file = sdk.files.upload(file=io.BytesIO(TEXT.encode()), config=config)
    assert (file.name, file.display_name, file.size_bytes) == (
        "files/my-file",
        "F 手册",
        len(TEXT.encode()),
    )
    assert file.state == types.FileState.PROCESSING
    assert [sdk.files.get(name="my-file").state.value for _ in range(2)] == ["PROCESSING", "ACTIVE"]  # type: ignore[union-attr]
    assert [one.name for one in sdk.files.list()] == ["files/my-file"]
    with pytest.raises(errors.ClientError) as caught:
        sdk.files.upload(file=io.BytesIO(b"x"), config=config)
    assert refused(caught) == (409, "ALREADY_EXISTS")
    sdk.files.delete(name="my-file")
    with pytest.raises(errors.ClientError) as caught:
        sdk.files.get(name="my-file")
    assert refused(caught) == (403, "PERMISSION_DENIED")


def test_a_file_is_imported_into_a_store(beta: genai.Client) -> None:
    config = types.UploadFileConfig(mime_type="text/plain", display_name="guide")
    file = beta.files.upload(file=io.BytesIO(TEXT.encode()), config=config)
    store = made(beta)
    operation = beta.file_search_stores.import_file(
        file_search_store_name=store,
        file_name=file.name or "",
        config={"custom_metadata": [{"key": "lang", "string_value": "zh"}]},
    )
    assert "/upload/" not in (operation.name or "")
    assert beta.operations.get(operation).done
    (document,) = beta.file_search_stores.documents.list(parent=store)
    assert document.display_name == "guide"
    with pytest.raises(errors.ClientError) as caught:
        beta.file_search_stores.import_file(file_search_store_name=store, file_name="files/none")
    assert refused(caught) == (403, "PERMISSION_DENIED")
