"""What programs may see over MCP: stores, documents. In: arguments. Out: JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.utils.translation import gettext_noop

from rag.core.access import Scope
from rag.core.options import option
from rag.core.tools import ToolCall
from rag.services.document_text import MAX_CHARACTERS, document_text
from rag.services.readable_stores import readable_stores

MAX_STORES = 200


class ListStores:
    """``rag.core.tools.Tool``: what there is to search."""

    name = "list_stores"
    label = gettext_noop("List the stores")
    description = (
        "Lists the stores of documents that you may search, with what each is called and how many "
        "files it has. Call it first when you do not know where to look."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Nothing."""

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``stores``: name to use, title, number of files that can be found."""
        found = readable_stores(scope=call.scope, limit=MAX_STORES)
        n_files = _n_files(found, call.scope)
        stores = [
            {
                "store": store.slug, "title": store.display_name or store.name,
                "files": n_files.get(store.pk, 0),
            }
            for store in found
        ]  # fmt: skip
        return {"stores": stores}


class FetchDocument:
    """``rag.core.tools.Tool``: a document's text, piece by piece."""

    name = "fetch_document"
    label = gettext_noop("Read a document")
    description = (
        "Returns the text of a document that search has found, up to 100000 characters at once. "
        "next_start tells where to go on; null means that this was the end."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which document, from where on."""

        document: str = option(help="The document, as search names it.")
        start: int = option(0, help="The first character.", minimum=0, maximum=2**31 - 1)
        limit: int = option(20_000, help="How many.", minimum=1, maximum=MAX_CHARACTERS)

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return what ``document_text`` returns."""
        asked = call.arguments
        return document_text(
            document=asked.document, scope=call.scope, start=asked.start, limit=asked.limit
        )


def _n_files(stores: Sequence[Any], scope: Scope) -> dict[int, int]:
    """Return by store how many of its files can be found, counted at once."""
    if not stores:
        return {}
    files = stores[0].files.model.objects.readable(scope)
    counted = files.filter(store__in=stores, n_chunks__gt=0).order_by().values_list("store_id")
    return dict(counted.annotate(n=Count("pk")))
