"""SQL of ``manage.py flush``: our hand-made tables too, not only those of Django's models."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.backends.postgresql import operations as postgresql

_TABLES = """
SELECT c.relname, c.relispartition FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
  AND c.relname ~ %s
ORDER BY c.relname
"""


class DatabaseOperations(postgresql.DatabaseOperations):
    """Django's, but the tables that migrations made by hand are emptied with the others."""

    def sql_flush(
        self, style: Any, tables: Any, *, reset_sequences: bool = False, allow_cascade: bool = False
    ) -> list[str]:
        """Return statements that empty ``tables`` and all others of the installed apps.

        Partitions are dropped: they belong to rows that are gone, and a row that gets the same
        number later may want another one.
        """
        if not tables:
            return []
        with self.connection.cursor() as cursor:
            cursor.execute(_TABLES, [f"^({'|'.join(_labels())})_"])
            found = cursor.fetchall()
        partitions = [name for name, is_partition in found if is_partition]
        by_hand = [name for name, is_partition in found if not is_partition]
        statements: list[str] = super().sql_flush(
            style,
            list(dict.fromkeys([*tables, *by_hand])),
            reset_sequences=reset_sequences,
            allow_cascade=allow_cascade,
        )
        drop, field = style.SQL_KEYWORD("DROP TABLE"), style.SQL_FIELD
        return statements + [f"{drop} {field(self.quote_name(name))};" for name in partitions]


def _labels() -> list[str]:
    """Return the apps that name their tables after themselves; others might share a word."""
    models = apps.get_models(include_auto_created=True)
    pairs = {(model._meta.app_label, model._meta.db_table) for model in models}
    return sorted({label for label, table in pairs if table.startswith(f"{label}_")})
