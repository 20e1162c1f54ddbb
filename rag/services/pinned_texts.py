"""What our chunks really said. In: hits that anybody may have made. Out: hits as we keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from django.db.models import FilteredRelation, Q

from rag import models
from rag.core.access import Scope
from rag.core.hits import Hit

MAX_BIGINT = 2**63 - 1
_PLACE = ("char_start", "char_end", "page_first", "page_last")
_FACTS = (
    "pk", "revision", "text", *_PLACE, "content_type", "store_id", "file_id", "file__name",
    "heading_path", "token_count",
)  # fmt: skip
_BEFORE = ("pinned__revision", "pinned__text", *(f"pinned__{name}" for name in _PLACE))


def pinned_hits(*, hits: Sequence[Hit], scope: Scope) -> tuple[Hit, ...]:
    """Return ``hits`` with everything about our chunks read anew, in one statement.

    The text is that of the pinned revision, or of the newest where none is pinned; retired chunks
    are found too. Of a chunk that ``scope`` may not read, or a revision that never was, nothing is
    left but its place in the order: an empty text. Hits without a chunk stay as they are.
    """
    rows = _rows(
        {hit.chunk_id for hit in hits if _is_number(hit.chunk_id)},
        {hit.revision for hit in hits if _is_number(hit.revision)},
        scope,
    )
    return tuple(hit if hit.chunk_id is None else _pinned(hit, rows) for hit in hits)


def _is_number(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= MAX_BIGINT


def _rows(
    ids: set[int], revisions: set[int], scope: Scope
) -> dict[tuple[int, int | None], dict[str, Any]]:
    """Return each chunk's facts by (chunk, revision); None is the newest."""
    if not ids:
        return {}
    found = (
        models.Chunk.objects.readable(scope)
        .filter(pk__in=ids)
        .annotate(
            pinned=FilteredRelation(
                "revisions", condition=Q(revisions__revision__in=revisions or {0})
            )
        )
        .order_by()
        .values(*_FACTS, *_BEFORE)
    )
    rows: dict[tuple[int, int | None], dict[str, Any]] = {}
    for row in found:
        rows[row["pk"], None] = rows[row["pk"], row["revision"]] = row
        if row["pinned__revision"] is not None:
            before = {name.removeprefix("pinned__"): row[name] for name in _BEFORE}
            rows.setdefault((row["pk"], before["revision"]), {**row, **before})
    return rows


def _pinned(hit: Hit, rows: dict[tuple[int, int | None], dict[str, Any]]) -> Hit:
    row = rows.get((hit.chunk_id, hit.revision)) if _is_number(hit.chunk_id) else None
    if row is None:
        return Hit(text="", rank=hit.rank, source=hit.source)
    return replace(
        hit, text=row["text"], revision=row["revision"], chunk_id=row["pk"],
        store_id=row["store_id"], file_id=row["file_id"], file_name=row["file__name"],
        content_type=row["content_type"], heading_path=tuple(row["heading_path"]),
        token_count=row["token_count"], external_id="", data=None, metadata={},
        **{name: row[name] for name in _PLACE},
    )  # fmt: skip
