"""MCP resources: stores, documents and chunks that the caller may read, by their addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.services.files import MAX_CHARACTERS, document_text, documents_after, passage_text
from rag.services.stores import find_stores, readable_stores

PAGE = 100
_ADDRESS = re.compile(r"citable://(stores|documents|chunks)/([^/?#]{1,300})")
_NUMBER = re.compile(r"[0-9]{1,18}")
# What clients fill in to get at one.
TEMPLATES = {
    "citable://stores/{store}": "A store: its title and documents.",
    "citable://documents/{document}": "A document's text, as search and list name it.",
    "citable://chunks/{chunk}": "A passage by the chunk_id of a search.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceInfo:
    """A resource in a list; ``size`` is in bytes, None where it is made when it is read."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ResourceText:
    """A resource's text, with the type that it is of."""

    text: str
    mime_type: str


def list_resources(*, scope: Scope, cursor: str = "") -> tuple[list[ResourceInfo], str]:
    """Return a page of resources and where the next one begins, empty at the end.

    First the stores, then the documents by their numbers.
    """
    if cursor and not _NUMBER.fullmatch(cursor):
        raise NotFoundError("The cursor does not belong to this list.")
    stores = [] if cursor else readable_stores(scope=scope, limit=PAGE)
    found = [
        ResourceInfo(
            uri=f"citable://stores/{store.slug}",
            name=store.slug,
            title=store.display_name or store.name,
            description="A store of documents.",
            mime_type="application/json",
        )
        for store in stores
    ]
    rows = documents_after(scope=scope, limit=PAGE + 1, file_id=int(cursor or 0))
    found += [
        ResourceInfo(
            uri=f"citable://documents/{file.pk}",
            name=file.name,
            title=file.name,
            description=f"{file.kind}, {file.n_chunks} chunks",
            mime_type="text/plain",
        )
        for file in rows[:PAGE]
    ]
    return found, str(rows[PAGE - 1].pk) if len(rows) > PAGE else ""


def read_resource(*, uri: str, scope: Scope) -> ResourceText:
    """Return what an address holds; NotFoundError alike for none and for what is hidden."""
    address = _ADDRESS.fullmatch(uri)
    readers: dict[str, Callable[[str, Scope], ResourceText]] = {
        "stores": _store,
        "documents": _document,
        "chunks": _chunk,
    }
    if address is None:
        raise _missing(uri)
    try:
        return readers[address[1]](address[2], scope)
    except NotFoundError as error:
        raise _missing(uri) from error


def _missing(uri: str) -> NotFoundError:
    return NotFoundError("There is no resource “{uri}”.", uri=uri[:300])


def _store(name: str, scope: Scope) -> ResourceText:
    (store,) = find_stores(names=[name], scope=scope)
    files = documents_after(scope=scope, limit=PAGE, store=store)
    told: dict[str, Any] = {
        "store": store.slug,
        "title": store.display_name or store.name,
        "documents": [
            {"uri": f"citable://documents/{file.pk}", "name": file.name} for file in files
        ],
    }
    return ResourceText(json.dumps(told, ensure_ascii=False), "application/json")


def _document(name: str, scope: Scope) -> ResourceText:
    text = document_text(document=name, scope=scope, limit=MAX_CHARACTERS)["text"]
    return ResourceText(text, "text/plain")


def _chunk(name: str, scope: Scope) -> ResourceText:
    if not _NUMBER.fullmatch(name):
        raise NotFoundError("There is no chunk {id}.", id=name)
    return ResourceText(passage_text(chunk_id=int(name), scope=scope), "text/plain")
