"""Rows of an inline form, as sent and as stored since. In: a form's data, rows. Out: one list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rag.admin.asked import asked_number

NAMES = ("id", "chunk", "file", "grade", "seen", "DELETE")
MAX_ROWS = 1000


def rows_of_now(data: Any, prefix: str, rows: Sequence[Any]) -> tuple[Any, int, int]:
    """Return the data with the stored rows in their order, how many came since, how many went.

    What was typed in a row that is there stays typed, and so do the new ones.
    """
    n_had, n_all = (
        min(asked_number(data.get(f"{prefix}-{name}_FORMS")), MAX_ROWS)
        for name in ("INITIAL", "TOTAL")
    )
    sent = [_sent(data, f"{prefix}-{n}-") for n in range(n_all)]
    had = {line.get("id", ""): line for line in sent[:n_had]}
    now = {str(row.pk): row for row in rows}
    if had.keys() == now.keys():
        return data, 0, 0
    lines = [*(had.get(pk) or _stored(row) for pk, row in now.items()), *sent[n_had:]]
    merged = data.copy()
    for n in range(n_all):
        for name in NAMES:
            merged.pop(f"{prefix}-{n}-{name}", None)
    for n, line in enumerate(lines):
        merged.update({f"{prefix}-{n}-{name}": value for name, value in line.items()})
    merged[f"{prefix}-INITIAL_FORMS"] = str(len(now))
    merged[f"{prefix}-TOTAL_FORMS"] = str(len(lines))
    return merged, len(now.keys() - had.keys()), len(had.keys() - now.keys())


def _sent(data: Any, start: str) -> dict[str, str]:
    return {name: data[start + name] for name in NAMES if start + name in data}


def _stored(row: Any) -> dict[str, str]:
    values = {"chunk": row.chunk_id, "file": row.file_id, "grade": row.grade}
    sent = {name: str(value or "") for name, value in values.items()}
    return {"id": str(row.pk), **sent, "seen": json.dumps(values)}
