"""Data source ``vector_store``: chunks of our own stores that the caller may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_noop, ngettext

from rag.core.errors import InvalidInputError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import SourceQuery, SourceResult
from rag.core.types import RetrievalSettings, SearchResult


@register("source")
class VectorStoreSource:
    """Searches stores as the hit test does; a store that may not be read does not exist."""

    name = "vector_store"
    label = gettext_noop("Stores of this knowledge base")
    hosts = ()

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What a data source of this type is told."""

        collection: str = option("", help="A store: its name, slug or resource name.")
        collections: list[str] = option([], help="Several stores, searched together.")
        top_k: int = option(5, help="Maximum hits.", minimum=1, maximum=200)
        similarity_threshold: float | None = option(
            None,
            help="Minimum calibrated similarity of a hit; empty: the store's own.",
            minimum=-1,
            maximum=1,
        )
        filters: dict[str, Any] = option({}, help="Metadata that a file must have.")
        content_types: list[str] = option([], help="Content types that a file must have one of.")
        mode: Literal["auto", "semantic", "keyword", "hybrid"] = option(
            "auto", help="Search by meaning, by words, or by both; auto: as the store does."
        )

    def __init__(self, options: Options) -> None:
        named = [options.collection, *options.collections]
        self._stores = list(dict.fromkeys(name for name in named if name.strip()))
        if not self._stores:
            raise InvalidInputError(
                "The source “{name}” names no store.",
                hint="Set {option}.",
                name=self.name,
                option="collection",
            )
        wanted = {
            "mode": "" if options.mode == "auto" else options.mode,
            "vector_threshold": options.similarity_threshold,
            "content_types": options.content_types,
            "metadata": options.filters,
        }
        given = {name: value for name, value in wanted.items() if value not in (None, "", [], {})}
        self._changes = {"top_k": options.top_k, **given}
        # Wrong values are told when the source is made, not when it is asked.
        RetrievalSettings.from_dict(self._changes)

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the best chunks; raise NotFoundError alike for no store and an unreadable one."""
        query.deadline.check()
        found = query.ports.search(
            query.text, scope=query.scope, stores=self._stores, changes=self._changes
        )
        query.deadline.check()
        return SourceResult(found.hits, _notes(found))


def _notes(found: SearchResult) -> tuple[str, ...]:
    """Return what whoever reads the hits must know: how many fell below the thresholds."""
    n = found.metadata.get("below_thresholds")
    told = ngettext(
        "{n} result fell below the thresholds.", "{n} results fell below the thresholds.", n or 0
    )
    return (told.format(n=n),) if n else ()
