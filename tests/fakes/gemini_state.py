"""What the faked service keeps, and how it may misbehave. Everything is in memory and dies with it.

A store has documents, a document has pieces; a file of the Files API stands alone.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.gemini_texts import Piece, cut, read_pages
from tests.fakes.gemini_wire import now

DEFAULT_CHUNK = {"maxTokensPerChunk": 200, "maxOverlapTokens": 20}
# Refused by the live models, Office files too: python-genai issue 829.
UNREAD = frozenset(
    (
        "application/octet-stream",
        "application/msword",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    )
)
_COUNTER = itertools.count(1)


@dataclass
class Modes:
    """How the files' half behaves.

    ``n_polls``: questions about an operation, document or file until it is ready. ``operation``:
    done, never (though the document is active), error, gone (404). ``document``: active, failed,
    pending (for ever).
    ``missing_store``: start or end of an upload; ``missing_status`` 404, or 403 as for files.
    ``cut_at`` drops the connection at that share of the bytes, ``n_cuts`` times; ``is_kept`` lets
    the last piece arrive before. ``has_url`` and ``has_status``: the headers of an upload;
    ``upload_host`` is another host than ours to send the bytes to, as behind a proxy.
    ``grounding``: full, none, empty, no_supports, no_texts, no_titles, broken (offsets inside
    characters), far (offsets past the end). ``n_parts`` of an answer. ``file``: ACTIVE, FAILED,
    PROCESSING. ``quota_bytes`` counts three times the size. ``unsupported`` types are refused by
    the model, though stores read some of them.
    """

    n_polls: int = 1
    operation: str = "done"
    operation_error: tuple[int, str] = (3, "The file is damaged.")
    document: str = "active"
    missing_store: str = "start"
    missing_status: int = 404
    cut_at: float | None = None
    n_cuts: int = 0
    is_kept: bool = False
    has_url: bool = True
    has_status: bool = True
    upload_host: str = ""
    grounding: str = "full"
    n_parts: int = 1
    file: str = "ACTIVE"
    quota_bytes: int | None = None
    unsupported: frozenset[str] = UNREAD


@dataclass
class Document:
    name: str
    display_name: str
    mime_type: str
    size: int
    metadata: list[dict[str, Any]]
    pieces: list[Piece] = field(default_factory=list)
    state: str = "STATE_PENDING"
    polls_left: int = 0
    final_state: str = "STATE_ACTIVE"
    created: str = field(default_factory=now)

    def tick(self) -> None:
        """Count a question about it; the last one makes it ready."""
        if self.state == "STATE_PENDING" and self.final_state != "STATE_PENDING":
            self.polls_left -= 1
            if self.polls_left < 0:
                self.state = self.final_state

    def as_json(self) -> dict[str, Any]:
        body = {"name": self.name, "displayName": self.display_name, "mimeType": self.mime_type}
        body |= {"state": self.state, "createTime": self.created, "updateTime": self.created}
        return (
            body
            | ({"sizeBytes": str(self.size)} if self.size else {})
            | ({"customMetadata": self.metadata} if self.metadata else {})
        )


@dataclass
class Operation:
    name: str
    document: Document
    error: tuple[int, str] | None = None
    is_never_done: bool = False

    def as_json(self) -> dict[str, Any]:
        # Without "done" while it runs, as on the wire.
        if self.is_never_done or self.document.state == "STATE_PENDING":
            return {"name": self.name}
        if self.error:
            code, message = self.error
            return {"name": self.name, "done": True, "error": {"code": code, "message": message}}
        parent, _, _ = self.document.name.partition("/documents/")
        kind = "type.googleapis.com/google.ai.generativelanguage.v1.UploadToFileSearchStoreResponse"
        made = {"@type": kind, "parent": parent, "documentName": self.document.name}
        return {"name": self.name, "done": True, "response": made}


@dataclass
class Store:
    name: str
    display_name: str
    embedding_model: str
    created: str = field(default_factory=now)
    documents: dict[str, Document] = field(default_factory=dict)
    media: dict[str, bytes] = field(default_factory=dict)

    def as_json(self, *, is_counted: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"name": self.name, "createTime": self.created}
        body |= {"updateTime": self.created, "embeddingModel": self.embedding_model}
        body |= {"displayName": self.display_name} if self.display_name else {}
        if not is_counted:
            return body
        states = [document.state for document in self.documents.values()]
        counts = {
            "activeDocumentsCount": states.count("STATE_ACTIVE"),
            "pendingDocumentsCount": states.count("STATE_PENDING"),
            "failedDocumentsCount": states.count("STATE_FAILED"),
            "sizeBytes": sum(document.size for document in self.documents.values()),
        }
        return body | {key: str(count) for key, count in counts.items() if count}


@dataclass
class StoredFile:
    """A file of the Files API."""

    name: str
    display_name: str
    mime_type: str
    data: bytes
    state: str
    polls_left: int
    uri: str
    created: str = field(default_factory=now)

    def tick(self, final: str) -> None:
        if self.state == "PROCESSING" and final != "PROCESSING":
            self.polls_left -= 1
            if self.polls_left < 0:
                self.state = final

    def as_json(self) -> dict[str, Any]:
        digest = base64.b64encode(hashlib.sha256(self.data).hexdigest().encode()).decode()
        return {
            "name": self.name,
            "mimeType": self.mime_type,
            "sizeBytes": str(len(self.data)),
            "createTime": self.created,
            "updateTime": self.created,
            "expirationTime": self.created,
            "sha256Hash": digest,
            "uri": self.uri,
            "state": self.state,
            "source": "UPLOADED",
        } | ({"displayName": self.display_name} if self.display_name else {})


def new_id(display_name: str = "") -> str:
    """Return at most 40 of [a-z0-9-]: the name's slug, if it has one, and twelve characters."""
    tail = hashlib.sha256(str(next(_COUNTER)).encode()).hexdigest()[:12]
    slug = re.sub("[^a-z0-9]+", "-", display_name.lower()).strip("-")[:27].strip("-")
    return f"{slug}-{tail}" if slug else tail


def fill(store: Store, document: Document, data: bytes, rule: dict[str, int]) -> None:
    """Cut what a document says into pieces, or let it become failed when nothing can be read."""
    if document.mime_type.startswith("image/"):
        if "embedding-2" not in store.embedding_model:
            document.final_state = "STATE_FAILED"
            return
        media = f"{store.name}/media/{new_id()}"
        store.media[media] = data
        document.pieces = [Piece("", media=media)]
        return
    pages = read_pages(data, document.mime_type)
    if pages is None:
        document.final_state = "STATE_FAILED"
        return
    has_pages = document.mime_type == "application/pdf"
    document.pieces = [
        Piece(text, number if has_pages else None)
        for number, page in enumerate(pages, 1)
        for text in cut(page, rule["maxTokensPerChunk"], rule.get("maxOverlapTokens", 0))
    ]
