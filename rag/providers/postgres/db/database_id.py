"""Database identity: tells databases apart for what is kept elsewhere."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from rag.providers.postgres.db.connections import fetch_row

_MARK = "SELECT system_identifier || '/' || current_database() FROM pg_control_system()"


@lru_cache(maxsize=1)
def database_id() -> str:
    """Return 8 hex digits that differ between databases, also between one and its restored dump.

    A standby that takes over has its primary's.
    """
    return hashlib.sha256(str(fetch_row(_MARK)[0]).encode()).hexdigest()[:8]
