"""Session engine: Django's in the database, with an end after idle time and one after sign-in.

Checked where a session is read, so that every door keeps to it and requests that read no session
pay nothing.
"""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore

BEGAN, SEEN = "_began_at", "_seen_at"
# How exactly idle time is measured: each write of a session is a query.
_STEP_S = 60


class SessionStore(DatabaseStore):
    """A session that is empty once it is over."""

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """Return what was stored; nothing of a session that is over."""
        found: dict[str, Any] = super().decode(session_data)
        if not found:
            return found
        seconds = time.time()
        began, seen = found.get(BEGAN, seconds), found.get(SEEN, seconds)
        if _is_over(seconds - began, settings.SESSION_MAX_S) or _is_over(
            seconds - seen, settings.SESSION_IDLE_S
        ):
            return {}
        if SEEN not in found or seconds - seen > _STEP_S:
            # It is read to be used, so whoever reads it has been seen; the middleware saves it.
            self.modified = True
        return found

    def encode(self, session_dict: dict[str, Any]) -> str:
        """Return the session's text, with the times at which it began and was last used."""
        seconds = int(time.time())
        return super().encode({BEGAN: seconds, **session_dict, SEEN: seconds})

    def cycle_key(self) -> None:
        """Begin anew where somebody proves who they are, at sign-in or a change of password."""
        self.pop(BEGAN, None)
        super().cycle_key()


def _is_over(seconds: float, limit: int) -> bool:
    return bool(limit) and seconds > limit
