"""Rate limit windows: counts requests of a key or a subject in the present minute.

Each count is one statement on one row, so it is exact whatever processes count at once. A window
begins with its first request. Nobody waits for the disk: a crash forgets a minute at most.
"""

from __future__ import annotations

from django.db import connection

from rag.providers.postgres.db.connections import fetch_planned

WINDOW_S = 60
_PRUNED = 100
_NOW = """(SELECT clock_timestamp() AS at, set_config('synchronous_commit', 'off', true))"""

_KEY = f"""
UPDATE rag_apikey k SET
  window_started_at = CASE WHEN k.window_started_at > t.at - interval '{WINDOW_S} s'
    THEN k.window_started_at ELSE t.at END,
  window_requests = CASE WHEN k.window_started_at > t.at - interval '{WINDOW_S} s'
    THEN k.window_requests + 1 ELSE 1 END,
  last_used_at = CASE WHEN k.last_used_at > t.at - interval '1 minute'
    THEN k.last_used_at ELSE t.at END
FROM {_NOW} t WHERE k.id = %s
RETURNING k.window_requests,
  extract(epoch FROM k.window_started_at + interval '{WINDOW_S} s' - t.at)
"""
_SUBJECT = f"""
INSERT INTO rag_requestwindow AS w (subject, started_at, n_requests)
SELECT %s, t.at, 1 FROM {_NOW} t
ON CONFLICT (subject) DO UPDATE SET
  n_requests = CASE WHEN w.started_at > excluded.started_at - interval '{WINDOW_S} s'
    THEN w.n_requests + 1 ELSE 1 END,
  started_at = CASE WHEN w.started_at > excluded.started_at - interval '{WINDOW_S} s'
    THEN w.started_at ELSE excluded.started_at END
RETURNING n_requests,
  extract(epoch FROM started_at + interval '{WINDOW_S} s' - clock_timestamp()), xmax = 0
"""
# What another one counts on at this moment is passed over. An array, for the planner may run a
# sub-select of IN once for each row, and each run locks a hundred more.
_PRUNE = f"""
DELETE FROM rag_requestwindow WHERE subject = ANY (ARRAY(
  SELECT subject FROM rag_requestwindow WHERE started_at < now() - interval '{10 * WINDOW_S} s'
  LIMIT {_PRUNED} FOR UPDATE SKIP LOCKED))
"""


def count_key_request(key_id: int) -> tuple[int, float]:
    """Count a request of a key; return its number in this window and the seconds that are left.

    The row also learns when the key was used, at most once a minute. A key that is gone counts
    nothing: (0, 0.0).
    """
    for n_requests, left_s in fetch_planned(_KEY, [key_id]):
        return int(n_requests), float(left_s)
    return 0, 0.0


def count_subject_request(subject: str) -> tuple[int, float]:
    """Count a request of ``subject``; return its number in this window and the seconds left.

    Each new subject takes up to 100 forgotten ones along, so that the table stays small.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SUBJECT, [subject])
        n_requests, left_s, is_new = cursor.fetchone()
        if is_new:
            cursor.execute(_PRUNE)
    return int(n_requests), float(left_s)
