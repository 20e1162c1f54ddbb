"""Data source ``chroma``: nearest records of an existing Chroma collection.

A server is asked over HTTP (its API v2) and needs no package; a folder of Chroma's own needs the
extra, which opens it in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from django.utils.translation import gettext, gettext_noop

from rag.core.errors import ConfigurationError, InvalidInputError, ProviderError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import SourceQuery, SourceResult
from rag.plugins.rows.chroma_collection import (
    CollectionName,
    FolderCollection,
    ServerCollection,
    VectorQuery,
)
from rag.plugins.rows.index_folder import index_path
from rag.stages.ranking.similarity import distance_to_similarity
from rag.stages.sql.json_safe import json_safe


@register("source")
class ChromaSource:
    """Searches a collection with the vectors of the embedding model that it was made with."""

    name = "chroma"
    label = gettext_noop("Chroma collection")

    @staticmethod
    def hosts(options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the server's host, none for a folder of the installation."""
        return (urlsplit(str(options["url"])).netloc.lower(),) if options.get("url") else ()

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What a data source of this type is told."""

        collection: str = option(help="Name of the collection.")
        url: str = option("", help="Address of a Chroma server, such as http://chroma:8000.")
        path: str = option("", help="Or a folder of Chroma's within the folder for indexes.")
        tenant: str = option("default_tenant", help="Tenant of the server.")
        database: str = option("default_database", help="Database of the tenant.")
        token: str = option("", help="Name of the secret with the server's token.", is_secret=True)
        token_header: str = option("x-chroma-token", help="Header that the token is sent in.")
        embedding_model: str = option(
            "", help="provider:model that made the collection; none: the configured one."
        )
        top_k: int = option(5, help="Maximum hits.", minimum=1, maximum=200)
        similarity_threshold: float | None = option(None, help="Minimum score of a hit.")
        filters: dict[str, Any] = option(
            {}, help="Metadata that a record must have, or a filter in Chroma's own words."
        )
        title_field: str = option("source", help="Metadata that names where a record is from.")
        content_type: str = option("text", help="What a record is called, such as manual.")

    def __init__(self, options: Options) -> None:
        if bool(options.url) == bool(options.path):
            raise InvalidInputError(
                "The source “{name}” needs either “url” or “path”.",
                hint="Set one of them.",
                name=self.name,
            )
        self._options = options

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the nearest records; raise ConfigurationError when the dimensions differ."""
        query.deadline.check()
        collection = self._collection(query)
        if collection.dimension is None:
            return SourceResult(notes=(gettext("The collection is empty."),))
        model = self._options.embedding_model
        vector = np.asarray(query.ports.embed_query(query.text, model=model))
        if vector.shape != (collection.dimension,):
            raise ConfigurationError(
                "The collection “{name}” has {expected} dimensions and the question’s vector"
                " {found}.",
                hint="Name the embedding_model that made the collection.",
                name=self._options.collection,
                expected=collection.dimension,
                found=vector.shape[-1],
            )
        asked = VectorQuery(
            vector=[float(number) for number in vector],
            top_k=self._options.top_k,
            where=_where(self._options.filters),
        )
        found = collection.nearest(asked)
        query.deadline.check()
        return SourceResult(tuple(self._hits(found, collection.measure)))

    def _collection(self, query: SourceQuery) -> ServerCollection | FolderCollection:
        options = self._options
        name = CollectionName(
            tenant=options.tenant, database=options.database, collection=options.collection
        )
        if options.path:
            return FolderCollection(index_path(options.path), name)
        headers = {}
        if options.token:
            headers[options.token_header] = query.ports.secret(options.token, url=options.url)
        return ServerCollection(
            options.url, name, headers, ports=query.ports, deadline=query.deadline
        )

    def _hits(self, found: Mapping[str, Any], measure: str) -> Iterator[Hit]:
        options, rank = self._options, 0
        for identity, text, metadata, distance in _records(found):
            score = distance_to_similarity(distance, measure)
            is_near = options.similarity_threshold is None or score >= options.similarity_threshold
            # A record may have been stored with its vector alone.
            if not is_near or not text.strip():
                continue
            rank += 1
            yield Hit(
                text=text,
                rank=rank,
                score=score,
                source=self.name,
                external_id=identity,
                file_name=str(metadata.get(options.title_field) or options.collection),
                content_type=options.content_type,
                metadata=metadata,
            )


def _records(found: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], float]]:
    try:
        lists = [found[name][0] for name in ("ids", "documents", "metadatas", "distances")]
        for identity, text, metadata, distance in zip(*lists, strict=True):
            yield str(identity), json_safe(text or ""), json_safe(metadata or {}), float(distance)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ProviderError(
            "Chroma’s answer cannot be read: {reason}.",
            hint="Its API v2 is understood.",
            reason=f"{type(error).__name__}: {error}",
        ) from error


def _where(filters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a filter in Chroma's words, where each field stands alone."""
    parts = [
        {name: {"$in": value} if isinstance(value, list) and name[:1] != "$" else value}
        for name, value in filters.items()
    ]
    if len(parts) > 1:
        return {"$and": parts}
    return parts[0] if parts else None
