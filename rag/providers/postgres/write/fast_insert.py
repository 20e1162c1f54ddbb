"""Insert of a row without waiting for the disk (synchronous_commit off), returning its id."""

from __future__ import annotations

from django.db import connection, models


def insert_without_fsync(row: models.Model) -> int:
    """Insert ``row`` in one round trip without waiting for the disk, and return its id.

    A crash of the server may lose it; nothing else. Inside a transaction the whole of it is not
    waited for.
    """
    meta = row._meta
    fields = [field for field in meta.concrete_fields if not field.primary_key]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    values = [field.get_db_prep_save(field.pre_save(row, True), connection) for field in fields]
    holes = ", ".join(["%s"] * len(fields))
    with connection.cursor() as cursor:
        # The setting is of this transaction, and is looked at when it ends.
        cursor.execute(
            f'INSERT INTO "{meta.db_table}" ({columns}) VALUES ({holes})'
            f" RETURNING {meta.pk.column}, set_config('synchronous_commit', 'off', true)",
            values,
        )
        return int(cursor.fetchone()[0])
