"""Read-only queries of a PostgreSQL database, rows as dicts.

The connection is used once and dropped: what the SQL sets, locks or leaves behind goes with it.
"""

from __future__ import annotations

import copy
import logging
import math
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import psycopg
from django.db import Error as DjangoDatabaseError
from django.db import connections
from django.db.utils import load_backend
from psycopg.adapt import Loader
from psycopg.types.json import JsonLoader

from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, InvalidInputError, ProviderError, RAGError
from rag.stages.sql.json_safe import column_names

logger = logging.getLogger(__name__)

# What administrators of the database see of these connections.
APPLICATION = "citable-source"
_FIRST_BATCH, _LARGEST_BATCH = 4, 256
# So that the database ends the statement a moment after the deadline and never before.
_MARGIN_MS = 20
_MIN_CONNECT_S = 2
_CANCELS, _CANCEL_S = 3, 1.0
_BEGIN = (
    "SELECT set_config('statement_timeout', %s, true), set_config('datestyle', 'ISO', true),"
    " set_config('standard_conforming_strings', 'on', true)"
)


def postgres_rows(
    alias: str, sql: str, parameters: Sequence[Any], *, deadline: Deadline
) -> Generator[dict[str, Any], None, None]:
    """Yield rows as they come, never all at once; the connection closes with the iteration.

    Raises ForbiddenError for a statement that would write, InvalidInputError for one that the
    database does not understand, ProviderError for the rest, and what ``deadline`` raises.
    """
    deadline.check()
    wrapper = _wrapper(alias, deadline)
    try:
        wrapper.ensure_connection()
        raw: psycopg.Connection[Any] = wrapper.connection
        raw.autocommit, raw.read_only = False, True
        done = threading.Event()
        with deadline.on_cancel(lambda: _cancel(raw, done)):
            try:
                yield from _fetch(raw, sql, parameters, deadline)
            finally:
                done.set()
    except psycopg.Error as error:
        raise _failure(error, alias, deadline) from error
    except DjangoDatabaseError as error:
        raise _unreachable(error, alias, deadline) from error
    finally:
        # A broken connection has nothing left to close.
        with suppress(psycopg.Error, DjangoDatabaseError):
            wrapper.close()


def _wrapper(alias: str, deadline: Deadline) -> Any:
    config = copy.deepcopy(connections.settings[alias])
    options = config.setdefault("OPTIONS", {})
    options.pop("pool", None)
    options.setdefault("application_name", APPLICATION)
    wanted = max(_MIN_CONNECT_S, math.ceil(deadline.remaining_s))
    options["connect_timeout"] = min(int(options.get("connect_timeout", wanted)), wanted)
    return load_backend(config["ENGINE"]).DatabaseWrapper(config, alias)


def _fetch(
    raw: psycopg.Connection[Any], sql: str, parameters: Sequence[Any], deadline: Deadline
) -> Iterator[dict[str, Any]]:
    _limit(raw, deadline)
    # A server-side cursor: one statement, one that reads, its parameters never part of its text.
    with psycopg.ServerCursor(raw, "citable_source") as cursor:
        for name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval"):
            cursor.adapters.register_loader(name, _MomentLoader)
        # Django reads these as text, for its own fields.
        for name in ("json", "jsonb"):
            cursor.adapters.register_loader(name, JsonLoader)
        cursor.execute(sql, parameters)
        names = column_names([column.name for column in cursor.description or ()])
        n_rows = _FIRST_BATCH
        while True:
            _limit(raw, deadline)
            rows = cursor.fetchmany(n_rows)
            for row in rows:
                deadline.check()
                yield dict(zip(names, row, strict=True))
            if len(rows) < n_rows:
                return
            n_rows = min(n_rows * 4, _LARGEST_BATCH)


def _limit(raw: psycopg.Connection[Any], deadline: Deadline) -> None:
    deadline.check()
    raw.execute(_BEGIN, [str(int(deadline.remaining_s * 1000) + _MARGIN_MS)])


def _cancel(raw: psycopg.Connection[Any], done: threading.Event) -> None:
    # A request to cancel that comes between two statements is lost.
    for _ in range(_CANCELS):
        with suppress(psycopg.Error):
            raw.cancel_safe(timeout=_CANCEL_S)
        if done.wait(0.1):
            return


class _MomentLoader(Loader):
    """Dates and times as ISO text; what Python cannot hold (infinity, BC) as Postgres says it."""

    def load(self, data: Any) -> str:
        text = bytes(data).decode()
        if " " in text:
            with suppress(ValueError):
                return datetime.fromisoformat(text).isoformat()
        return text


def _failure(error: psycopg.Error, alias: str, deadline: Deadline) -> RAGError:
    # Whatever it says: when nobody waits any more, that is the cause.
    deadline.check()
    reason = (error.diag.message_primary or str(error)).strip().rstrip(".")
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or "data-modifying" in reason:
        return ForbiddenError(
            "The query of the database “{alias}” would change data.",
            hint="Sources only read.",
            alias=alias,
        )
    if isinstance(error, psycopg.errors.QueryCanceled):
        return ProviderError(
            "The database “{alias}” ended the query: {reason}.",
            hint="Ask for less, or try again.",
            alias=alias,
            reason=reason,
        )
    if isinstance(error, (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError)):
        return InvalidInputError(
            "The database “{alias}” does not accept the query: {reason}.",
            hint="Check the query and its values; a cast such as {example} says what a value is.",
            alias=alias,
            reason=reason,
            example="{name}::int",
        )
    return ProviderError(
        "The database “{alias}” failed: {reason}.",
        hint="Try again later.",
        alias=alias,
        reason=reason,
    )


def _unreachable(error: DjangoDatabaseError, alias: str, deadline: Deadline) -> RAGError:
    deadline.check()
    # Addresses and account names are for the log only.
    logger.warning("the database %s cannot be reached: %s", alias, error)
    return ProviderError(
        "The database “{alias}” cannot be reached.", hint="The server's log says why.", alias=alias
    )
