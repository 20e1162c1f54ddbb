"""Disk full: whether an error was caused by a lack of space, ours or the database's."""

from __future__ import annotations

import errno

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# What PostgreSQL calls it, https://www.postgresql.org/docs/current/errcodes-appendix.html
_FULL_DATABASE = "53100"


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether a full disk, ours or the database's, is what an error came from."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if getattr(error, "sqlstate", None) == _FULL_DATABASE:
            return True
        error = error.__cause__
    return False
