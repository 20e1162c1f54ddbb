"""Fake Gemini: File Search and the Files API.

Counts and sizes are strings, zeros and empty lists are left out, as on the wire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.fakes.gemini_state import (
    DEFAULT_CHUNK,
    Document,
    Modes,
    Operation,
    Store,
    StoredFile,
    fill,
    new_id,
)
from tests.fakes.gemini_uploads import Uploads, check_upload
from tests.fakes.gemini_wire import VERSION, camel, error, retry_info
from tests.fakes.loopback import Call, LoopbackServer, Reply

STORE = f"{VERSION}/(?P<store>fileSearchStores/[^/:]+)"
MAX_PAGE = 20
FIRST_MODEL = "models/gemini-embedding-001"


class GeminiFiles:
    """Stores, documents, operations and files, with their ``modes``."""

    def __init__(self, server: LoopbackServer) -> None:
        self.modes = Modes()
        self.stores: dict[str, Store] = {}
        self.files: dict[str, StoredFile] = {}
        self.operations: dict[str, Operation] = {}
        self.uploads = Uploads(lambda: self.modes, server.origin)
        self._server = server
        self._lock = threading.RLock()
        upload, files = f"/upload{STORE}:uploadToFileSearchStore", f"{VERSION}/files"
        routes: list[tuple[str, str, Callable[[Call], Reply]]] = [
            ("POST", f"{VERSION}/fileSearchStores", self._create_store),
            ("GET", f"{VERSION}/fileSearchStores", self._list_stores),
            ("GET", STORE, self._get_store),
            ("DELETE", STORE, self._delete_store),
            ("POST", upload, self._upload),
            ("POST", f"{STORE}:importFile", self._import),
            ("GET", f"{STORE}/(?:upload/)?operations/[^/]+", self._get_operation),
            ("GET", f"{STORE}/documents", self._list_documents),
            ("GET", f"{STORE}/documents/[^/]+", self._get_document),
            ("DELETE", f"{STORE}/documents/[^/]+", self._delete_document),
            ("GET", f"{STORE}/media/[^/]+", self._media),
            ("POST", f"/upload{VERSION}/files", self._upload_file),
            ("GET", files, self._list_files),
            ("GET", f"{files}/[^/:]+", self._get_file),
            ("DELETE", f"{files}/[^/:]+", self._delete_file),
        ]
        for method, pattern, answer in routes:
            server.route(method, pattern, partial(self._locked, answer))

    def documents(self) -> list[Document]:
        """Return the documents of all stores."""
        return [found for store in self.stores.values() for found in store.documents.values()]

    def missing(self, name: str) -> Reply:
        """Return the error for a store that is not there."""
        if self.modes.missing_status == 403:
            message = f"You do not have permission to access the {name} or it may not exist."
            return error(403, "PERMISSION_DENIED", message)
        return error(404, "NOT_FOUND", f"FileSearchStore {name} not found.")

    def _locked(self, answer: Callable[[Call], Reply], call: Call) -> Reply:
        with self._lock:
            return answer(call)

    def _store(self, call: Call) -> Store | Reply:
        name = "/".join(call.path.split(":")[0].split("/")[2:4])
        if call.path.startswith("/upload/"):
            name = "/".join(call.path.split(":")[0].split("/")[3:5])
        return self.stores.get(name) or self.missing(name)

    def _create_store(self, call: Call) -> Reply:
        body = camel(call.json) if call.body else {}
        display_name = body.get("displayName", "")
        if len(display_name) > 512:
            return error(400, "INVALID_ARGUMENT", "display_name must be at most 512 characters.")
        name = f"fileSearchStores/{new_id(display_name)}"
        store = Store(name, display_name, body.get("embeddingModel", FIRST_MODEL))
        self.stores[name] = store
        return Reply(store.as_json(is_counted=False))

    def _list_stores(self, call: Call) -> Reply:
        rows = [store.as_json(is_counted=True) for store in self.stores.values()]
        return _page(call, "fileSearchStores", rows)

    def _get_store(self, call: Call) -> Reply:
        store = self._store(call)
        if isinstance(store, Reply):
            return store
        for document in store.documents.values():
            document.tick()
        return Reply(store.as_json(is_counted=True))

    def _delete_store(self, call: Call) -> Reply:
        store = self._store(call)
        if isinstance(store, Reply):
            return store
        if store.documents and not _is_forced(call):
            return error(400, "FAILED_PRECONDITION", "Cannot delete non-empty FileSearchStore.")
        del self.stores[store.name]
        return Reply({})

    def _upload(self, call: Call) -> Reply:
        if "upload_id" in call.query:
            self._server.forget_body(call)
            return self.uploads.take(call)
        body = camel(call.json)
        name = "/".join(call.path.split(":")[0].split("/")[3:5])

        def check(size: int) -> Reply | None:
            if name not in self.stores and self.modes.missing_store == "start":
                return self.missing(name)
            return self._over_quota(size) or check_upload(body)

        mime_type = call.headers.get("x-goog-upload-header-content-type", "")
        body = {"mimeType": mime_type, **body}
        return self.uploads.start(call, partial(self._keep, name, body, "upload/"), check=check)

    def _import(self, call: Call) -> Reply:
        store, body = self._store(call), camel(call.json)
        if isinstance(store, Reply):
            return store
        file = self.files.get(body.get("fileName", ""))
        if file is None:
            return _no_file(body.get("fileName", ""))
        if refused := check_upload(body):
            return refused
        known = {"displayName": file.display_name, "mimeType": file.mime_type}
        return self._keep(store.name, {**known, **body}, "", file.data)

    def _over_quota(self, size: int) -> Reply | None:
        held = sum(document.size for document in self.documents())
        if self.modes.quota_bytes is None or 3 * (held + size) <= self.modes.quota_bytes:
            return None
        message = "You exceeded the storage of File Search."
        return error(429, "RESOURCE_EXHAUSTED", message, [retry_info("17s")])

    def _keep(self, store_name: str, body: dict[str, Any], where: str, data: bytes) -> Reply:
        """Make a document of an upload's bytes; return the operation that makes it ready."""
        store = self.stores.get(store_name)
        if store is None:
            return self.missing(store_name)
        display_name = body.get("displayName", "")
        name = f"{store.name}/documents/{new_id(display_name)}"
        # Who gives no name gets the document's id for one.
        shown = display_name or name.rpartition("/")[2]
        metadata = body.get("customMetadata", [])
        document = Document(name, shown, body["mimeType"], len(data), metadata)
        document.polls_left = self.modes.n_polls
        fill(
            store,
            document,
            data,
            body.get("chunkingConfig", {}).get("whiteSpaceConfig", DEFAULT_CHUNK),
        )
        state = {"failed": "STATE_FAILED", "pending": "STATE_PENDING"}.get(self.modes.document)
        document.final_state = state or document.final_state
        store.documents[name] = document
        slug = new_id(display_name)
        operation = Operation(f"{store.name}/{where}operations/{slug}", document)
        operation.is_never_done = self.modes.operation == "never"
        if self.modes.operation == "error":
            operation.error, document.final_state = self.modes.operation_error, "STATE_FAILED"
        self.operations[operation.name] = operation
        return Reply(operation.as_json())

    def _get_operation(self, call: Call) -> Reply:
        operation = self.operations.get(_name(call))
        if operation is None or self.modes.operation == "gone":
            return error(404, "NOT_FOUND", "The operation does not exist.")
        if operation.name.partition("/upload/")[0].partition("/operations/")[0] not in self.stores:
            return error(404, "NOT_FOUND", "The operation does not exist.")
        operation.document.tick()
        return Reply(operation.as_json())

    def _list_documents(self, call: Call) -> Reply:
        store = self._store(call)
        if isinstance(store, Reply):
            return store
        for document in store.documents.values():
            document.tick()
        return _page(call, "documents", [one.as_json() for one in store.documents.values()])

    def _get_document(self, call: Call) -> Reply:
        document = self._document(call)
        if isinstance(document, Reply):
            return document
        document.tick()
        return Reply(document.as_json())

    def _delete_document(self, call: Call) -> Reply:
        document = self._document(call)
        if isinstance(document, Reply):
            return document
        if document.pieces and not _is_forced(call):
            return error(400, "FAILED_PRECONDITION", "Cannot delete non-empty Document.")
        store = self._store(call)
        assert isinstance(store, Store)
        del store.documents[document.name]
        return Reply({})

    def _document(self, call: Call) -> Document | Reply:
        store = self._store(call)
        if isinstance(store, Reply):
            return store
        missing = error(404, "NOT_FOUND", f"Document {_name(call)} not found.")
        return store.documents.get(_name(call)) or missing

    def _media(self, call: Call) -> Reply:
        store = self._store(call)
        if isinstance(store, Reply):
            return store
        data = store.media.get(_name(call))
        if data is None or call.query.get("alt") != "media":
            return error(404, "NOT_FOUND", "The blob does not exist.")
        return Reply(data)

    def _upload_file(self, call: Call) -> Reply:
        if "upload_id" in call.query:
            self._server.forget_body(call)
            return self.uploads.take(call)
        body = camel(call.json).get("file", {})
        name = body.get("name") or f"files/{new_id()}"

        def check(size: int) -> Reply | None:
            if name in self.files:
                return error(409, "ALREADY_EXISTS", "The file already exists.")
            if len(name) > 46 or not name[6:].replace("-", "").isalnum() or name != name.lower():
                return error(400, "INVALID_ARGUMENT", "The file's name is malformed.")
            return self._over_quota(size)

        return self.uploads.start(call, partial(self._keep_file, name, body), check=check)

    def _keep_file(self, name: str, body: dict[str, Any], data: bytes) -> Reply:
        file = StoredFile(
            name,
            body.get("displayName", ""),
            body["mimeType"],
            data,
            "PROCESSING",
            self.modes.n_polls,
            f"{self._server.origin}/v1beta/{name}",
        )
        if not self.modes.n_polls:
            file.tick(self.modes.file)
        self.files[name] = file
        return Reply({"file": file.as_json()})

    def _list_files(self, call: Call) -> Reply:
        return _page(call, "files", [file.as_json() for file in self.files.values()], most=100)

    def _get_file(self, call: Call) -> Reply:
        file = self.files.get(_name(call))
        if file is None:
            return _no_file(_name(call))
        file.tick(self.modes.file)
        return Reply(file.as_json())

    def _delete_file(self, call: Call) -> Reply:
        return Reply({}) if self.files.pop(_name(call), None) else _no_file(_name(call))


def _name(call: Call) -> str:
    """Return the resource that a path names, without the version before it."""
    return call.path.split("/", 2)[2]


def _no_file(name: str) -> Reply:
    shown = name.removeprefix("files/")
    message = f"You do not have permission to access the File {shown} or it may not exist."
    return error(403, "PERMISSION_DENIED", message)


def _is_forced(call: Call) -> bool:
    return call.query.get("force", "").lower() == "true"


def _page(call: Call, key: str, rows: Iterable[Any], *, most: int = MAX_PAGE) -> Reply:
    size = int(call.query.get("pageSize", 10))
    if not 1 <= size <= most:
        return error(400, "INVALID_ARGUMENT", f"page_size must be 1 to {most}.")
    everything, first = list(rows), int(call.query.get("pageToken", 0))
    body = {key: found} if (found := everything[first : first + size]) else {}
    rest = {"nextPageToken": str(first + size)} if len(everything) > first + size else {}
    return Reply(body | rest)
