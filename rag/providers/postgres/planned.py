"""Runs a statement that is planned once a connection. In: SQL and values. Out: rows.

For what is asked at every search: planning it takes longer than running it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.db import connection


def fetch_planned(
    statement: str, params: Sequence[Any] | Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the rows of ``statement``, whose values are bound by the server.

    Behind a pooler that hands out connections by transaction, which the setting
    DISABLE_SERVER_SIDE_CURSORS tells, nothing is planned ahead.
    """
    with connection.cursor() as cursor:
        if connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
            cursor.execute(statement, params)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found
    raw = connection.connection
    # Django turns preparing off; its own cursors bind on the client and are not affected.
    raw.prepare_threshold = raw.prepare_threshold or 5
    with connection.wrap_database_errors, psycopg.Cursor(raw) as planned:
        return planned.execute(statement, params, prepare=True).fetchall()
