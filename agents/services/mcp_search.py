"""The search of programs over MCP. In: a question, stores. Out: passages and where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_noop

from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.tools import ToolCall
from rag.services.readable_stores import readable_stores
from rag.services.retrieve import retrieve
from rag.services.stores import find_stores


class Search:
    """``rag.core.tools.Tool``: passages, by the stores' own settings."""

    name = "search"
    label = gettext_noop("Search documents")
    description = (
        "Finds the passages of documents that fit a question best, by meaning and by words, each "
        "with its document, page and score. Ask a whole question. To read on around a passage, "
        "call fetch_document with its document and char_start."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What to look for, and where."""

        query: str = option(help="A question or words, understandable by itself.")
        stores: list[str] = option([], help="Stores by name; empty: all that may be read.")
        top_k: int | None = option(
            None, help="How many passages; unset: by the question.", minimum=1, maximum=50
        )
        mode: Literal["auto", "semantic", "keyword", "hybrid"] = option(
            "auto", help="By meaning (semantic), by words (keyword) or both."
        )

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``results``, best first, and ``mode``, as it was searched."""
        asked, scope = call.arguments, call.scope
        if asked.stores:
            stores = find_stores(names=asked.stores, scope=scope)
        else:
            stores = readable_stores(scope=scope)
        if not stores:
            raise InvalidInputError("No store was chosen.", hint="Name at least one.")
        settings = stores[0].retrieval_settings
        settings = settings.but(top_k=asked.top_k) if asked.top_k else settings
        found = retrieve(
            query=asked.query, scope=scope, stores=stores, settings=settings,
            retrieval_mode=asked.mode,
        )  # fmt: skip
        call.deadline.check()
        slugs = {store.pk: store.slug for store in stores}
        results = [_told(hit, slugs.get(hit.store_id or 0, "")) for hit in found.hits]
        return {"results": results, "mode": found.metadata["mode"]}


def _told(hit: Hit, store: str) -> dict[str, Any]:
    return {
        "document": hit.document_id, "file": hit.file_name, "store": store,
        "page": hit.page_first, "heading": " › ".join(hit.heading_path), "content": hit.text,
        "score": hit.score, "chunk_id": hit.chunk_id, "char_start": hit.char_start,
        "char_end": hit.char_end, "content_type": hit.content_type,
    }  # fmt: skip
