"""Which files answers rest on. In: logged queries. Out: files with the most verified citations."""

from __future__ import annotations

from django.db import connection
from django.db.models import QuerySet

from rag import models

_CITED = """SELECT (c->>'file_id')::bigint AS file_id, count(*) AS n
FROM ({rows}) q, jsonb_array_elements(q.citations) c
WHERE q.citations <> '[]' AND c->>'file_id' IS NOT NULL AND c->>'verdict' = 'verified'
GROUP BY 1 ORDER BY 2 DESC, 1"""


def cited_files(*, rows: QuerySet[models.QueryLog]) -> list[tuple[int, int]]:
    """Return (file id, number of verified citations), the most cited first; files may be gone."""
    sql, params = rows.values("citations").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(_CITED.format(rows=sql), params)
        return [(int(pk), int(n)) for pk, n in cursor.fetchall()]
