"""Gemini resources: stores and documents, listed page by page, as the port's values."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import RemoteDocument, RemoteStore
from rag.providers.gemini.client import GeminiCaller, SdkCall

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import Document, FileSearchStore


# Says which upload a document came from: an answer that was lost leaves no other trace.
MARK = "citable_upload"
# The service takes 20, one of which is the mark.
MAX_METADATA = 19
MAX_NAME_CHARS = 512
_STORE = re.compile(r"fileSearchStores/[A-Za-z0-9_-]{1,100}")
_DOCUMENT = re.compile(_STORE.pattern + r"/documents/[A-Za-z0-9_-]{1,200}")
_STATES = {"STATE_ACTIVE": "active", "STATE_FAILED": "failed"}


def check_name(name: str, *, is_document: bool = False) -> str:
    """Return a resource name that may stand in an address; raise InvalidInputError."""
    pattern = _DOCUMENT if is_document else _STORE
    example = "fileSearchStores/abc" + ("/documents/xyz" if is_document else "")
    if not pattern.fullmatch(name):
        raise InvalidInputError(
            "“{name}” is no resource name of Gemini.",
            hint="It looks like {example}.",
            name=name,
            example=example,
        )
    return name


def check_display_name(name: str) -> str:
    """Return a name that Gemini takes; raise InvalidInputError."""
    if not name.strip() or len(name) > MAX_NAME_CHARS:
        raise InvalidInputError(
            "A name at Gemini has 1 to {most} characters, this one {n_chars}.",
            hint="Choose another name.",
            most=MAX_NAME_CHARS,
            n_chars=len(name.strip()),
        )
    return name


def read_store(found: FileSearchStore, *, is_counted: bool = False) -> RemoteStore:
    """Return the port's value; where the service counts it leaves out what is 0.

    Raises ValueError for an answer, such as {}, that names no store.
    """
    if not found.name:
        raise ValueError("a store without a name")
    zero = 0 if is_counted else None
    return RemoteStore(
        name=found.name,
        display_name=found.display_name or "",
        created_at=found.create_time or datetime.now(UTC),
        n_active=found.active_documents_count or zero,
        n_pending=found.pending_documents_count or zero,
        n_failed=found.failed_documents_count or zero,
        size_bytes=found.size_bytes or zero,
    )


def read_document(found: Document) -> RemoteDocument:
    """Return the port's value; a state that nobody knows yet counts as pending."""
    return RemoteDocument(
        name=found.name or "",
        display_name=found.display_name or "",
        size_bytes=found.size_bytes or 0,
        state=_STATES.get(found.state.value if found.state else "", "pending"),
        mime_type=found.mime_type or "",
        metadata=plain_metadata(found.custom_metadata or ()),
    )


def plain_metadata(entries: Iterable[Any]) -> Mapping[str, Any]:
    """Return customMetadata, of documents or of groundings, as plain values without our mark."""
    found: dict[str, Any] = {}
    for entry in entries:
        if entry.key and entry.key != MARK:
            texts = entry.string_list_value
            value = entry.string_value if entry.string_value is not None else entry.numeric_value
            found[entry.key] = list(texts.values or ()) if texts is not None else value
    return found


# More is an error at the service.
PAGE_SIZE = 20


async def all_stores(calls: GeminiCaller, deadline: Deadline) -> list[FileSearchStore]:
    """Return all stores of the account, oldest first."""
    pages = _pages(
        calls, lambda client, config: client.file_search_stores.list(config=config), deadline
    )
    return [store async for page in pages for store in page]


async def all_documents(calls: GeminiCaller, store: str, deadline: Deadline) -> list[Document]:
    """Return all documents of a store; raise NotFoundError when it is gone."""
    pages = _document_pages(calls, store, deadline)
    return [document async for page in pages for document in page]


async def find_by_mark(
    calls: GeminiCaller, store: str, mark: str, deadline: Deadline
) -> Document | None:
    """Return the document that the upload ``mark`` made, None when there is none (yet)."""
    async for page in _document_pages(calls, store, deadline):
        for document in page:
            for entry in document.custom_metadata or ():
                if entry.key == MARK and entry.string_value == mark:
                    found: Document = document
                    return found
    return None


def _document_pages(
    calls: GeminiCaller, store: str, deadline: Deadline
) -> AsyncIterator[list[Any]]:
    return _pages(
        calls,
        lambda client, config: client.file_search_stores.documents.list(
            parent=store, config=config
        ),
        deadline,
        gone=store,
    )


async def _pages(
    calls: GeminiCaller, fetch: SdkCall[Any], deadline: Deadline, *, gone: str = ""
) -> AsyncIterator[list[Any]]:
    page: dict[str, Any] = {"page_size": PAGE_SIZE}

    async def act(client: AsyncClient, config: Any) -> Any:
        return await fetch(client, config | page)

    while True:
        answer = await calls.ask(act, deadline, gone=gone)
        yield answer.page
        if not (token := answer.config.get("page_token")):
            return
        page["page_token"] = token
