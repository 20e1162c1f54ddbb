"""Chroma collection, on a server or in a folder: nearest records of a vector.

The server is asked over its HTTP API v2, through the house's guard; the folder is opened in this
process by the extra.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError, ProviderError
from rag.core.sources import FetchRequest, SourcePorts

_REQUIREMENT = "chromadb==1.5.9"
_INCLUDE = ["documents", "metadatas", "distances"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionName:
    """Which collection is meant."""

    tenant: str
    database: str
    collection: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorQuery:
    """What is looked for; ``where`` is a filter in Chroma's words, or None."""

    vector: list[float]
    top_k: int
    where: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the query as both ways to Chroma take it."""
        asked = {"query_embeddings": [self.vector], "n_results": self.top_k, "include": _INCLUDE}
        return {**asked, "where": self.where} if self.where else asked


class ServerCollection:
    """A collection of a server; ``dimension`` is None while it is empty."""

    def __init__(
        self,
        url: str,
        name: CollectionName,
        headers: Mapping[str, str],
        *,
        ports: SourcePorts,
        deadline: Deadline,
    ) -> None:
        tenant, database = quote(name.tenant, safe=""), quote(name.database, safe="")
        place = f"tenants/{tenant}/databases/{database}/collections"
        self._root = f"{url.rstrip('/')}/api/v2/{place}"
        self._headers, self._ports, self._deadline = headers, ports, deadline
        model = self._call(f"{self._root}/{quote(name.collection, safe='')}", "GET")
        if not isinstance(model.get("id"), str):
            raise _no_chroma(url)
        self._id = model["id"]
        self.dimension: int | None = model.get("dimension")
        self.measure = _measure(model.get("configuration_json"), model.get("metadata"))

    def nearest(self, query: VectorQuery) -> Mapping[str, Any]:
        """Return ids, documents, metadatas and distances, each a list of one list."""
        return self._call(f"{self._root}/{quote(self._id, safe='')}/query", "POST", query.as_dict())

    def _call(self, url: str, method: str, body: Any = None) -> Mapping[str, Any]:
        request = FetchRequest(url, method, headers=self._headers, json=body)
        reply = self._ports.fetch(request, deadline=self._deadline)
        try:
            found = json.loads(reply.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _no_chroma(reply.url.partition("/api/v2/")[0])
        return found


class FolderCollection:
    """A collection in a folder that Chroma wrote; ``dimension`` is None while it is empty."""

    def __init__(self, folder: Path, name: CollectionName) -> None:
        chromadb, settings = _chromadb()
        if not (folder / "chroma.sqlite3").is_file():
            raise ConfigurationError(
                "“{folder}” is no folder of Chroma’s.",
                hint="Name the one that holds {file}.",
                folder=folder.name,
                file="chroma.sqlite3",
            )
        self._failures = (chromadb.errors.ChromaError, ValueError, OSError)
        try:
            client = chromadb.PersistentClient(
                str(folder), settings=settings, tenant=name.tenant, database=name.database
            )
            self._collection = client.get_collection(name.collection, embedding_function=None)
        except self._failures as error:
            raise _failed(error) from error
        model = self._collection.get_model()
        self.dimension: int | None = model.dimension
        self.measure = _measure(model.configuration_json, model.metadata)

    def nearest(self, query: VectorQuery) -> Mapping[str, Any]:
        """Return ids, documents, metadatas and distances, each a list of one list."""
        try:
            found: Mapping[str, Any] = self._collection.query(**query.as_dict())
        except self._failures as error:
            raise _failed(error) from error
        return found


def _chromadb() -> tuple[Any, Any]:
    try:
        # An extra: 490 MB that only this way to Chroma needs.
        import chromadb
        from chromadb.config import Settings
    except ImportError as error:
        raise ConfigurationError(
            "A folder of Chroma’s needs a package that is not installed ({reason}).",
            hint="Run: pip install {requirement}, or start a Chroma server and give its url.",
            reason=error,
            requirement=_REQUIREMENT,
        ) from error
    return chromadb, Settings(anonymized_telemetry=False)


def _no_chroma(url: str) -> ProviderError:
    return ProviderError(
        "What answers at “{url}” is no Chroma server.", hint="Check the url.", url=url
    )


def _measure(configuration: Any, metadata: Any) -> str:
    configuration = configuration if isinstance(configuration, dict) else {}
    for engine in ("hnsw", "spann"):
        found = (configuration.get(engine) or {}).get("space")
        if found in ("cosine", "ip", "l2"):
            return str(found)
    # Where versions before 1.0 kept it.
    found = (metadata or {}).get("hnsw:space")
    return found if found in ("cosine", "ip", "l2") else "l2"


def _failed(error: Exception) -> ProviderError:
    return ProviderError(
        "Chroma refused the query: {reason}",
        hint="Check the collection and the filters.",
        reason=str(error)[:300],
    )
