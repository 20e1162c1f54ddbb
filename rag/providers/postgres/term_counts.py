"""How common terms are. In: keys with their stores. Out: a number of chunks."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

_DF = """
SELECT coalesce(sum(coalesce(tp.df, 0) + coalesce(tn.df, 0)), 0)
FROM unnest(%s::int[], %s::int[]) k(store_id, key)
LEFT JOIN LATERAL (
  SELECT p.dfs[array_position(p.keys, k.key)] AS df FROM rag_term_pack p
  WHERE p.store_id = k.store_id AND p.first_key <= k.key ORDER BY p.first_key DESC LIMIT 1
) tp ON true
LEFT JOIN rag_term_stat tn ON tn.store_id = k.store_id AND tn.key = k.key
"""


def count_holders(stores: Sequence[int], keys: Sequence[int]) -> int:
    """Return in how many chunks keys stand, each in the store beside it, as far as rolled up."""
    with connection.cursor() as cursor:
        cursor.execute(_DF, [list(stores), list(keys)])
        return int(cursor.fetchone()[0])
