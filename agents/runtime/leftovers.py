"""Leftovers: counts of kept texts that rest on chunks which are not there, for the doctor.

Everything that has a text and names a chunk is looked at, wherever it lies in nested JSON; what
redaction notes about a row counts nothing.
"""

from __future__ import annotations

from django.db import connection

_GONE = "NOT EXISTS (SELECT FROM rag_chunk k WHERE k.id = c.id)"
_IN_COLUMN = f"EXISTS (SELECT FROM unnest(t.chunk_ids) c(id) WHERE {_GONE})"
_IN_JSON = f"""
EXISTS (SELECT FROM (
  SELECT (CASE WHEN jsonb_typeof(x->'chunk_id') = 'number' THEN x->>'chunk_id'
    WHEN jsonb_typeof(x->'metadata'->'revision') = 'number' THEN x->'metadata'->>'chunk_id' END
    )::bigint AS id
  FROM jsonb_path_query(%s, 'lax $.** ? (@.content != "" || @.quote != "")') x
  WHERE jsonb_typeof(x) = 'object') c WHERE c.id IS NOT NULL AND {_GONE})
"""
# A sentence that nothing holds, in an answer that has lost a passage.
_UNHELD = """
(t.sources @? '$[*] ? (@.is_gone == true)' OR t.citations @? '$[*] ? (@.is_gone == true)')
AND EXISTS (SELECT FROM jsonb_array_elements(CASE WHEN jsonb_typeof(t.grounding->'statements')
    = 'array' THEN t.grounding->'statements' ELSE '[]' END) s
  WHERE s->>'verdict' NOT IN ('cited', 'attributed') AND left(substr(t.content,
    (s->>'start')::int + 1, (s->>'end')::int - (s->>'start')::int), 3) <> '[…]')
"""


def _count(table: str, *conditions: str, of: str = "TRUE") -> int:
    where = " OR ".join(f"({one})" for one in conditions)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table} t WHERE ({where}) AND {of}")
        n: int = cursor.fetchone()[0]
    return n


def count_answers() -> int:
    """Return how many ended answers, and events of such, rest on chunks that are not there."""
    own = _IN_JSON % "jsonb_build_array(t.sources, t.citations)"
    ended = "EXISTS (SELECT FROM agents_message m WHERE m.id = t.message_id AND {})"
    return _count("agents_message", _IN_COLUMN, own, _UNHELD, of="t.status <> 'running'") + _count(
        "agents_messageevent", _IN_JSON % "t.data", of=ended.format("m.status <> 'running'")
    )


def count_runs() -> int:
    """Return how many flow runs, and events of such, rest on chunks that are not there."""
    own = _IN_JSON % "jsonb_build_array(t.passages, t.state, t.citations, t.reviews)"
    ended = "EXISTS (SELECT FROM agents_flowrun r WHERE r.id = t.run_id AND r.status <> 'running')"
    return _count("agents_flowrun", _IN_COLUMN, own, of="t.status <> 'running'") + _count(
        "agents_runevent",
        _IN_JSON % "jsonb_build_array(t.data, t.record::jsonb)",
        of=ended,
    )


def count_memories() -> int:
    """Return how many memories rest on chunks that are not there."""
    return _count("agents_memory", _IN_COLUMN)
