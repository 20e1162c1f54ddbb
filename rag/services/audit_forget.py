"""The audit's retention. In: a time. Out: how many entries went; an entry tells who forgot them."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction
from django.utils import timezone

from rag.core.errors import InvalidInputError
from rag.services.audit_actor import actor

LEAST_DAYS = 30


def forget_audit(*, before: datetime, is_dry: bool = False) -> int:
    """Delete the entries before a time, and note that; the last 30 days always stay.

    Raises InvalidInputError for a later time.
    """
    if (timezone.now() - before).days < LEAST_DAYS:
        raise InvalidInputError(
            "The audit keeps at least {days} days.", hint="Name an earlier time.", days=LEAST_DAYS
        )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM audit_entry WHERE at < %s", [before])
        n: int = cursor.fetchone()[0]
        if is_dry or not n:
            return n
        cursor.execute("SELECT set_config('citable.audit_forget', 'on', true)")
        cursor.execute("SELECT set_config('citable.actor', %s, true)", [actor()])
        cursor.execute("DELETE FROM audit_entry WHERE at < %s", [before])
        cursor.execute(
            "SELECT audit_write('forget', 'audit', NULL, %s, NULL, '{}',"
            " jsonb_build_object('entries', %s::int))",
            [before.isoformat(timespec="minutes"), n],
        )
    return n
