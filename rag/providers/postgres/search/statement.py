"""Prepared statements: runs the search SQL, planned once a connection.

Planning it takes a millisecond, as long as finding the rows of a large store, so it is planned
once a connection wherever its values cannot change the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

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


# What a connection was told last: telling it again at every search is a round trip for nothing.
_SETTINGS_OF: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def fetch_search_rows(
    statement: str, params: Mapping[str, Any], *, ef_search: int, is_planned_once: bool
) -> list[tuple[Any, ...]]:
    """Return the rows of ``statement`` with named ``params``.

    ``ef_search`` is how many candidates an HNSW scan keeps in view; it goes on where filters
    leave too few. Behind a pooler that hands out connections by transaction, which the setting
    DISABLE_SERVER_SIDE_CURSORS tells, nothing is planned ahead.
    """
    # Starting parallel workers costs 5 ms a search, as long as a search of a million chunks takes.
    settings = (
        f"SET hnsw.ef_search = {int(ef_search)}; SET hnsw.iterative_scan = relaxed_order;"
        " SET plan_cache_mode = force_generic_plan; SET max_parallel_workers_per_gather = 0"
    )
    with connection.cursor() as cursor:
        raw = connection.connection
        told = _SETTINGS_OF.pop(raw, "")
        if not is_planned_once or connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
            cursor.execute(f"{settings};\n{statement}", params)
            while cursor.nextset():
                pass
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found
        if told != settings:
            cursor.execute(settings)
        if told == settings or not connection.in_atomic_block:
            # A rollback takes back what was told inside of it.
            _SETTINGS_OF[raw] = settings
    return fetch_planned(statement, params)
