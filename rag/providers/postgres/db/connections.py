"""Connections: statements planned once each, inserts without fsync, release before something slow.

Planning the search statement takes a millisecond, as long as finding the rows of a large store, so
it is planned once a connection wherever its values cannot change the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections, models

Params = Sequence[Any] | Mapping[str, Any]
M = TypeVar("M", bound=models.Model)


def release_db() -> None:
    """Return this thread's connections to the pool, unless a transaction holds them.

    A request keeps its connection until the response ends; before a model call or a stream that
    would starve everybody else.
    """
    for held in connections.all(initialized_only=True):
        if not held.in_atomic_block:
            held.close()


def execute(statement: str, params: Params | None = None) -> int:
    """Run a statement and return how many rows it has met."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return int(cursor.rowcount)


def fetch_rows(statement: str, params: Params | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())


def fetch_row(statement: str, params: Params | None = None) -> Any:
    """Return the first row of a statement, None where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchone()


def fetch_planned(statement: str, params: Params) -> list[tuple[Any, ...]]:
    """Return the rows of ``statement``, whose values are bound by the server.

    Behind a pooler that hands out connections by transaction, which the setting
    DISABLE_SERVER_SIDE_CURSORS tells, nothing is planned ahead.
    """
    held = _open_connection()
    if held.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        return fetch_rows(statement, params)
    raw = held.connection
    # Django turns preparing off; its own cursors bind on the client and are not affected.
    raw.prepare_threshold = raw.prepare_threshold or 5
    with held.wrap_database_errors, psycopg.Cursor(raw) as planned:
        return planned.execute(statement, params, prepare=True).fetchall()


def model_columns(model: type[models.Model], prefix: str = "") -> list[str]:
    """Return what ``values_list`` takes to give whole rows to ``row_to_model``."""
    return [prefix + field.attname for field in model._meta.concrete_fields]


def row_to_model(model: type[M], values: Sequence[Any]) -> M:
    """Return the object of the columns of ``model_columns``, as a planned statement gives them."""
    fields, held = model._meta.concrete_fields, connections[DEFAULT_DB_ALIAS]
    loaded = [
        field.from_db_value(value, None, held) if hasattr(field, "from_db_value") else value
        for field, value in zip(fields, values, strict=True)
    ]
    return model.from_db(DEFAULT_DB_ALIAS, [field.attname for field in fields], loaded)


def _open_connection() -> Any:
    """Return this thread's connection itself, opened, or anew in place of a dead one."""
    # What Django does for each cursor, without the cursor and the proxy.
    held = connections[DEFAULT_DB_ALIAS]
    held.close_if_health_check_failed()
    held.ensure_connection()
    return held


# What a connection was told last: telling it again at every search is a round trip for nothing.
_SETTINGS_OF: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def fetch_search_rows(
    statement: str, params: Mapping[str, Any], *, ef_search: int, is_planned_once: bool
) -> list[tuple[Any, ...]]:
    """Return the rows of ``statement`` with named ``params``.

    ``ef_search`` is how many candidates an HNSW scan keeps in view; it goes on where filters
    leave too few.
    """
    # Starting parallel workers costs 5 ms a search, as long as a search of a million chunks takes.
    settings = (
        f"SET hnsw.ef_search = {int(ef_search)}; SET hnsw.iterative_scan = relaxed_order;"
        " SET plan_cache_mode = force_generic_plan; SET max_parallel_workers_per_gather = 0"
    )
    held = _open_connection()
    told = _SETTINGS_OF.pop(held.connection, "")
    if not is_planned_once or held.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        with held.cursor() as cursor:
            cursor.execute(f"{settings};\n{statement}", params)
            while cursor.nextset():
                pass
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found
    if told != settings:
        execute(settings)
    if told == settings or not held.in_atomic_block:
        # A rollback takes back what was told inside of it.
        _SETTINGS_OF[held.connection] = settings
    return fetch_planned(statement, params)


def insert_without_fsync(row: models.Model) -> int:
    """Insert ``row`` in one round trip without waiting for the disk, and return its id.

    A crash of the server may lose it; nothing else. Inside a transaction the whole of it is not
    waited for.
    """
    meta, held = row._meta, connections[DEFAULT_DB_ALIAS]
    fields = [field for field in meta.concrete_fields if not field.primary_key]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    values = [field.get_db_prep_save(field.pre_save(row, True), held) for field in fields]
    holes = ", ".join(["%s"] * len(fields))
    # The setting is of this transaction, and is looked at when it ends.
    rows = fetch_planned(
        f'INSERT INTO "{meta.db_table}" ({columns}) VALUES ({holes})'
        f" RETURNING {meta.pk.column}, set_config('synchronous_commit', 'off', true)",
        values,
    )
    return int(rows[0][0])


_MARK = "SELECT system_identifier || '/' || current_database() FROM pg_control_system()"


@lru_cache(maxsize=1)
def database_id() -> str:
    """Return 8 hex digits that differ between databases, also between one and its restored dump.

    A standby that takes over has its primary's.
    """
    return hashlib.sha256(str(fetch_row(_MARK)[0]).encode()).hexdigest()[:8]
