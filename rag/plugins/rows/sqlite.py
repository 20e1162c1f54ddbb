"""Read-only queries of a SQLite database, rows as dicts."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connections

from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, InvalidInputError, ProviderError, RAGError
from rag.stages.sql.json_safe import column_names

logger = logging.getLogger(__name__)

# What a statement may do: nothing but read and compute. Attaching, pragmas and writing are not in.
_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_OPERATIONS_PER_CHECK = 10_000
_BUSY_S = 5.0
# No text or blob of a query may be larger, not even on the way to a result.
_MAX_VALUE_BYTES = 50_000_000


def sqlite_rows(
    alias: str, sql: str, parameters: Sequence[Any], *, deadline: Deadline
) -> Generator[dict[str, Any], None, None]:
    """Yield rows as they come, never all at once; the connection closes with the iteration.

    Raises ForbiddenError for a statement that would do more than read, InvalidInputError for one
    that SQLite does not understand, ProviderError for the rest, and what ``deadline`` raises.
    """
    deadline.check()
    try:
        with closing(_connect(alias, deadline)) as raw:
            cursor = raw.execute(sql, [_bindable(value) for value in parameters])
            names = column_names([column[0] for column in cursor.description or ()])
            for row in cursor:
                deadline.check()
                yield dict(zip(names, row, strict=True))
    except OverflowError as error:
        raise InvalidInputError(
            "A number is too large for the database “{alias}”.",
            hint="Allowed: up to {limit}.",
            alias=alias,
            limit=2**63 - 1,
        ) from error
    except sqlite3.Error as error:
        raise _failure(error, alias, deadline) from error


def _connect(alias: str, deadline: Deadline) -> sqlite3.Connection:
    name = str(connections.settings[alias]["NAME"])
    address = name if name.startswith("file:") else f"{Path(name).resolve().as_uri()}?mode=ro"
    raw = sqlite3.connect(
        address,
        uri=True,
        timeout=min(_BUSY_S, deadline.remaining_s),
        isolation_level=None,
        check_same_thread=False,
    )
    raw.text_factory = lambda data: data.decode("utf-8", "replace")
    raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    raw.execute("PRAGMA query_only = ON")
    raw.set_authorizer(_may)
    raw.set_progress_handler(
        lambda: deadline.is_cancelled or not deadline.remaining_s, _OPERATIONS_PER_CHECK
    )
    return raw


def _may(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _bindable(value: Any) -> Any:
    if isinstance(value, datetime):
        # As SQLite's own functions write it, so that texts compare.
        return value.isoformat(" ")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, UUID):
        # As Django stores it where there is no type for it.
        return value.hex
    return str(value) if isinstance(value, (Decimal, timedelta)) else value


def _failure(error: sqlite3.Error, alias: str, deadline: Deadline) -> RAGError:
    # Whatever it says: when nobody waits any more, that is the cause.
    deadline.check()
    reason = str(error).strip().rstrip(".")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY):
        return ForbiddenError(
            "The query of the database “{alias}” would change data.",
            hint="Sources only read.",
            alias=alias,
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        # Where files lie is for the log only.
        logger.warning("%s cannot be opened: %s", connections.settings[alias]["NAME"], reason)
        return ProviderError(
            "The database “{alias}” cannot be reached.",
            hint="The server's log says why.",
            alias=alias,
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR):
        return ProviderError(
            "The database “{alias}” failed: {reason}.",
            hint="Try again later.",
            alias=alias,
            reason=reason,
        )
    return InvalidInputError(
        "The database “{alias}” does not accept the query: {reason}.",
        hint="Check the query and its values.",
        alias=alias,
        reason=reason,
    )
