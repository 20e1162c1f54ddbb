"""What answers, runs and titles rest on, so that a deletion finds them by an index."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models

_OWN = """
SELECT coalesce(array_agg(DISTINCT (one #>> '{}')::bigint), '{}')
FROM jsonb_path_query(%s, 'lax $.**.chunk_id ? (@.type() == "number")') one
"""
_OWN_MESSAGE = _OWN % "jsonb_build_array(m.sources, m.citations)"
# An answer also rests on what the turns before it do: their words were shown to its model.
_MESSAGES = f"""
WITH RECURSIVE own AS MATERIALIZED (
  SELECT m.id, m.parent_id, ({_OWN_MESSAGE}) AS ids FROM agents_message m),
branch AS (
  SELECT id, ids FROM own WHERE parent_id IS NULL
  UNION ALL
  SELECT own.id, branch.ids || own.ids FROM own JOIN branch ON branch.id = own.parent_id)
UPDATE agents_message m
SET chunk_ids = ARRAY(SELECT DISTINCT pk FROM unnest(branch.ids) pk ORDER BY 1)
FROM branch WHERE branch.id = m.id AND m.role = 'assistant' AND branch.ids <> '{{}}'
"""
_RUNS = f"""
UPDATE agents_flowrun m SET chunk_ids = ({_OWN % "jsonb_build_array(m.passages, m.state)"})
WHERE m.passages <> '[]'
"""
# A model's title was made from the first answer that is there.
_TITLES = """
UPDATE agents_session s SET titled_after_id = first.id
FROM (SELECT DISTINCT ON (a.session_id) a.session_id, a.id FROM agents_message a
  JOIN agents_message q ON q.id = a.parent_id AND q.parent_id IS NULL
  WHERE a.role = 'assistant' ORDER BY a.session_id, a.id) first
WHERE first.session_id = s.id AND s.titled_by = 'model'
"""


def _array() -> django.contrib.postgres.fields.ArrayField:
    field = models.BigIntegerField()
    return django.contrib.postgres.fields.ArrayField(
        base_field=field, default=list, editable=False, size=None
    )


def _index(model: str, name: str) -> migrations.AddIndex:
    index = django.contrib.postgres.indexes.GinIndex(fields=["chunk_ids"], name=name)
    return migrations.AddIndex(model_name=model, index=index)


class Migration(migrations.Migration):
    dependencies = [("agents", "0009_run_traces")]
    operations = [
        migrations.AddField("message", "chunk_ids", _array()),
        migrations.AddField("flowrun", "chunk_ids", _array()),
        migrations.AddField(
            "session",
            "titled_after",
            models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="agents.message",
            ),
        ),
        # No table can be altered once rows have changed whose keys are checked at commit.
        _index("message", "agents_message_chunks"),
        _index("flowrun", "agents_flowrun_chunks"),
        _index("memory", "agents_memory_chunks"),
        migrations.RunSQL(_MESSAGES, migrations.RunSQL.noop),
        migrations.RunSQL(_RUNS, migrations.RunSQL.noop),
        migrations.RunSQL(_TITLES, migrations.RunSQL.noop),
    ]
