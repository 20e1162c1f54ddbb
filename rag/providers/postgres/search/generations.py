"""Store generations: a number that differs after every committed change, for cache keys.

Triggers write the changes (migration 0004), so no path of writing can forget to. A number is read
before a search: what the search then sees is that state or a newer one, never an older.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection

from rag.providers.postgres.db.connections import execute, fetch_planned

_READ = """
SELECT s.id, s.cache_ttl_s, coalesce(g.total, 0) + c.total, c.is_ours, e.model, e.dim, e.version
FROM rag_store s JOIN rag_embeddingspace e ON e.id = s.space_id
  LEFT JOIN rag_store_generation g ON g.store_id = s.id
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(step), 0)::bigint AS total,
      coalesce(bool_or(tx = pg_current_xact_id_if_assigned()), false) AS is_ours
    FROM rag_store_change WHERE store_id = s.id) c
WHERE s.id = ANY(%s) ORDER BY s.id
"""
_NOTE = """
INSERT INTO rag_store_change (store_id) SELECT DISTINCT id FROM unnest(%s::bigint[]) id
ON CONFLICT (store_id, tx) DO UPDATE SET step = rag_store_change.step + excluded.step
"""
# By one statement: whoever sums both tables sees each change in exactly one of them.
_FOLD = """
WITH gone AS (
  DELETE FROM rag_store_change WHERE tx IS DISTINCT FROM pg_current_xact_id_if_assigned()
  RETURNING store_id, step),
sums AS (
  INSERT INTO rag_store_generation AS g
  SELECT store_id, sum(step) FROM gone WHERE store_id IN (SELECT id FROM rag_store)
  GROUP BY 1 ORDER BY 1
  ON CONFLICT (store_id) DO UPDATE SET total = g.total + excluded.total)
SELECT count(*) FROM gone
"""
_FORGET = "DELETE FROM rag_store_generation WHERE store_id NOT IN (SELECT id FROM rag_store)"


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store as a search would find it.

    ``is_ours``: the running transaction itself has changed the store, so nobody else sees this
    state and it may never come to be. ``ttl_s`` is how long a result may be kept.
    """

    store_id: int
    ttl_s: int
    generation: int
    is_ours: bool
    model: str
    dim: int
    version: str


def read_states(store_ids: Iterable[int]) -> list[StoreState]:
    """Return the states of those stores that exist, in order of their ids; one query."""
    return [StoreState(*row) for row in fetch_planned(_READ, [list(store_ids)])]


def bump_generation(store_ids: Iterable[int]) -> None:
    """Give these stores a new generation at commit, as every change does by itself."""
    execute(_NOTE, [list(store_ids)])


def compact_generations() -> int:
    """Sum up the changes so far, so that reading stays fast; return how many there were.

    No reader sees a number fall or come again.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FOLD)
        n_folded = int(cursor.fetchone()[0])
        cursor.execute(_FORGET)
    return n_folded
