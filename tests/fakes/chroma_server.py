"""Chroma's HTTP API v2 on a loopback port, as version 1.5.9 was seen to answer.

Real vectors are compared exactly; filters know equality, ``$in`` and ``$and``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fakes.loopback import Call, LoopbackServer, Reply

_ROOT = r"/api/v2/tenants/default_tenant/databases/default_database/collections"


class ChromaServer(LoopbackServer):
    """Holds collections; ``token``, when set, must come in the header ``x-chroma-token``."""

    def __init__(self, token: str = "") -> None:
        super().__init__()
        self._token = token
        self._collections: dict[str, dict[str, Any]] = {}
        self.route("GET", _ROOT + r"/[^/]+", self._get)
        self.route("POST", _ROOT + r"/[^/]+/query", self._query)

    def add(self, name: str, records: list[dict[str, Any]], *, space: str = "cosine") -> None:
        """Make a collection of records with id, vector, text, metadata."""
        self._collections[name] = {"records": records, "space": space}

    def answer(self, call: Call) -> Reply:
        if self._token and call.headers.get("x-chroma-token") != self._token:
            return Reply({"error": "AuthError", "message": "Forbidden"}, 403)
        return super().answer(call)

    def _get(self, call: Call) -> Reply:
        name = call.path.rpartition("/")[2]
        found = self._collections.get(name)
        if found is None:
            message = f"Collection [{name}] does not exist"
            return Reply({"error": "NotFoundError", "message": message}, 404)
        records, space = found["records"], found["space"]
        return Reply(
            {
                "id": f"id-of-{name}",
                "name": name,
                "configuration_json": {"hnsw": {"space": space}, "spann": None},
                "metadata": None,
                "dimension": len(records[0]["vector"]) if records else None,
                "tenant": "default_tenant",
                "database": "default_database",
            }
        )

    def _query(self, call: Call) -> Reply:
        found = self._collections[call.path.split("/")[-2].removeprefix("id-of-")]
        wanted = np.array(call.json["query_embeddings"][0])
        where = call.json.get("where")
        if where is not None and len(where) != 1:
            return Reply({"error": "InvalidArgumentError", "message": "Invalid where clause"}, 400)
        chosen = [one for one in found["records"] if _holds(one["metadata"] or {}, where)]
        measured = [(_distance(wanted, one["vector"], found["space"]), one) for one in chosen]
        measured.sort(key=lambda pair: pair[0])
        nearest = measured[: call.json["n_results"]]
        return Reply(
            {
                "ids": [[one["id"] for _, one in nearest]],
                "embeddings": None,
                "documents": [[one["text"] for _, one in nearest]],
                "uris": None,
                "metadatas": [[one["metadata"] for _, one in nearest]],
                "distances": [[distance for distance, _ in nearest]],
                "include": call.json["include"],
            }
        )


def _distance(wanted: Any, vector: Any, space: str) -> float:
    other = np.array(vector)
    if space == "l2":
        return float(((wanted - other) ** 2).sum())
    product = float(wanted @ other)
    if space == "cosine":
        product /= float(np.linalg.norm(wanted) * np.linalg.norm(other))
    return 1 - product


def _holds(metadata: dict[str, Any], where: dict[str, Any] | None) -> bool:
    for name, wanted in (where or {}).items():
        if name == "$and":
            if not all(_holds(metadata, part) for part in wanted):
                return False
        elif isinstance(wanted, dict):
            if metadata.get(name) not in wanted["$in"]:
                return False
        elif metadata.get(name) != wanted:
            return False
    return True
