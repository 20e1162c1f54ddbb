"""What a source would have found. In: a call, results written by hand. Out: an outcome."""

from __future__ import annotations

from typing import Any

from rag.core.errors import NotFoundError, ProviderError, RAGError
from rag.core.hits import Hit
from rag.services.source_calls import SourceCall, SourceOutcome


def pretend_outcome(call: SourceCall, given: Any) -> SourceOutcome:
    """Return ``given`` as what the source answered: texts or chunks, rows, or ``{error: text}``.

    None, that is nothing given, is a failure too.
    """
    error: RAGError | None = None
    if given is None:
        error = NotFoundError("The case has no result of “{name}”.", name=call.name)
    elif isinstance(given, dict) and given.keys() == {"error"}:
        error = ProviderError("The source fails: {reason}", reason=given["error"])
    if error is not None:
        return SourceOutcome.failed(call, error)
    items = given if isinstance(given, list) else [given]
    hits = tuple(_hit(item, rank) for rank, item in enumerate(items, 1))
    return SourceOutcome(name=call.name, plugin=call.plugin, status="ok" if hits else "empty",
                         hits=hits)  # fmt: skip


def pretend_files(node: str, given: Any) -> dict[str, Any]:
    """Return ``given`` as what a node that asks files gives; raise where it is an error or None."""
    if given is None:
        raise NotFoundError("The case has no result of “{name}”.", name=node)
    if isinstance(given, dict) and given.keys() == {"error"}:
        raise ProviderError("The source fails: {reason}", reason=given["error"])
    texts = given if isinstance(given, list) else [given]
    output = dict(given) if isinstance(given, dict) else {"documents": [str(one) for one in texts]}
    output.setdefault("documents", [])
    output.setdefault("answer", "\n".join(output["documents"]))
    return {"query": "", "mode": "fileSearch", "documentCount": len(output["documents"]), **output}


def _hit(item: Any, rank: int) -> Hit:
    if not isinstance(item, dict):
        return Hit(text=str(item), rank=rank)
    if isinstance(item.get("content"), str):
        metadata = dict(item.get("metadata") or {})
        name = str(metadata.pop("source", ""))
        page = metadata.pop("page", None)
        return Hit(text=item["content"], rank=rank, score=item.get("score"), file_name=name,
                   page_first=page, metadata=metadata)  # fmt: skip
    return Hit(text="", rank=rank, data=item)
