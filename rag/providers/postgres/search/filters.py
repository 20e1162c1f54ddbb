"""Search filters as SQL: access rule, content types, files and metadata, for both legs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rag.core.ports import IndexQuery

# OFFSET keeps the planner from turning the question round and beginning with all such files.
_METADATA = (
    "EXISTS (SELECT FROM rag_file d WHERE d.id = x.file_id"
    " AND d.metadata @> %(metadata)s::jsonb OFFSET 0)"
)


def filter_conditions(query: IndexQuery, store_ids: Sequence[int]) -> str:
    """Return the conditions of both legs on alias ``x``; the access rule among them.

    What they bind is in ``filter_values``.
    """
    stores = ",".join(str(int(store_id)) for store_id in store_ids)
    is_in = f"= {stores}" if len(store_ids) == 1 else f"IN ({stores})"
    parts = [f"x.store_id {is_in}", "x.enabled"]
    open_ids = [
        str(target.store_id)
        for target in query.targets
        if target.sees_restricted and target.store_id in store_ids
    ]
    if len(open_ids) < len(store_ids):
        rule = "x.restricted IS NULL OR x.restricted && %(groups)s::int[]"
        if open_ids:
            rule += f" OR x.store_id IN ({','.join(open_ids)})"
        parts.append(f"({rule})")
    if query.settings.content_types:
        parts.append("x.content_type = ANY(%(types)s)")
    if query.files is not None:
        parts.append("x.file_id = ANY(%(files)s::bigint[])")
    elif query.settings.metadata:
        parts.append(_METADATA)
    return " AND ".join(parts)


def filter_values(query: IndexQuery) -> dict[str, Any]:
    """Return the values that ``filter_conditions`` binds."""
    return {
        "groups": sorted(query.group_ids),
        "types": list(query.settings.content_types),
        "files": list(query.files.file_ids) if query.files else [],
        "metadata": json.dumps(dict(query.settings.metadata)),
    }


def leaves_out_files(query: IndexQuery) -> bool:
    """Return whether some files cannot be found, whoever may read them."""
    asked = query.settings
    return bool(query.files is not None or asked.content_types or asked.metadata)
