"""Paginated lists of Gemini's stores and documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.providers.gemini.calls import Calls
from rag.providers.gemini.resources import MARK

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import Document, FileSearchStore, HttpOptions

# More is an error at the service.
PAGE_SIZE = 20
Fetch = Callable[["AsyncClient", dict[str, Any]], Awaitable[Any]]


async def stores_of(calls: Calls, deadline: Deadline) -> list[FileSearchStore]:
    """Return all stores of the account, oldest first."""

    async def fetch(client: AsyncClient, config: dict[str, Any]) -> Any:
        return await client.file_search_stores.list(config=config)  # type: ignore[arg-type]

    return [store async for page in _pages(calls, fetch, deadline) for store in page]


async def documents_of(calls: Calls, store: str, deadline: Deadline) -> list[Document]:
    """Return all documents of a store; raise NotFoundError when it is gone."""
    fetch = _documents(store)
    pages = _pages(calls, fetch, deadline, gone=store)
    return [document async for page in pages for document in page]


async def marked_document(
    calls: Calls, store: str, mark: str, deadline: Deadline
) -> Document | None:
    """Return the document that the upload ``mark`` made, None when there is none (yet)."""
    async for page in _pages(calls, _documents(store), deadline, gone=store):
        for document in page:
            for entry in document.custom_metadata or ():
                if entry.key == MARK and entry.string_value == mark:
                    found: Document = document
                    return found
    return None


def _documents(store: str) -> Fetch:
    async def fetch(client: AsyncClient, config: dict[str, Any]) -> Any:
        documents = client.file_search_stores.documents
        return await documents.list(parent=store, config=config)  # type: ignore[arg-type]

    return fetch


async def _pages(
    calls: Calls, fetch: Fetch, deadline: Deadline, *, gone: str = ""
) -> AsyncIterator[list[Any]]:
    token: str | None = ""
    while token is not None:
        config: dict[str, Any] = {"page_size": PAGE_SIZE} | ({"page_token": token} if token else {})

        async def act(
            client: AsyncClient, options: HttpOptions, config: dict[str, Any] = config
        ) -> Any:
            return await fetch(client, {**config, "http_options": options})

        answer = await calls.ask(act, deadline, gone=gone)
        yield answer.page
        token = answer.config.get("page_token") or None
