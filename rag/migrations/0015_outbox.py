"""The outbox of a search engine beside Postgres, written by triggers on both index tables.

The triggers are off until ``rag_feed`` turns them on: an installation without such an engine pays
nothing for them.
"""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models

# By row: whatever writes to a partition by its own name would pass a trigger by statement.
TRIGGERS = """
CREATE FUNCTION rag_outbox_vector() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'DELETE' THEN
    INSERT INTO rag_outbox (space_id, chunk_id) VALUES (OLD.space_id, OLD.chunk_id);
  ELSE
    INSERT INTO rag_outbox (space_id, chunk_id) VALUES (NEW.space_id, NEW.chunk_id);
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION rag_outbox_words() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'DELETE' THEN
    INSERT INTO rag_outbox (space_id, chunk_id) VALUES (0, OLD.chunk_id);
  ELSE
    INSERT INTO rag_outbox (space_id, chunk_id) VALUES (0, NEW.chunk_id);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER rag_outbox AFTER INSERT OR UPDATE OR DELETE ON rag_chunk_vec
  FOR EACH ROW EXECUTE FUNCTION rag_outbox_vector();
CREATE TRIGGER rag_outbox AFTER INSERT OR UPDATE OR DELETE ON rag_chunk_lex
  FOR EACH ROW EXECUTE FUNCTION rag_outbox_words();
ALTER TABLE rag_chunk_vec DISABLE TRIGGER rag_outbox;
ALTER TABLE rag_chunk_lex DISABLE TRIGGER rag_outbox;
"""

DROP_TRIGGERS = """
DROP TRIGGER rag_outbox ON rag_chunk_lex;
DROP TRIGGER rag_outbox ON rag_chunk_vec;
DROP FUNCTION rag_outbox_words, rag_outbox_vector;
"""


class Migration(migrations.Migration):
    dependencies = [("rag", "0014_audit")]
    operations = [
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("space_id", models.IntegerField(verbose_name="embedding space")),
                ("chunk_id", models.BigIntegerField(verbose_name="chunk")),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name="changed at")),
                ("fed_at", models.DateTimeField(null=True, verbose_name="fed at")),
            ],
            options={
                "verbose_name": "change for the search engine",
                "verbose_name_plural": "changes for the search engine",
                "db_table": "rag_outbox",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["space_id", "-id"], name="rag_outbox_space"),
                    models.Index(condition=models.Q(("fed_at__isnull", True)), fields=["id"], name="rag_outbox_waiting"),
                    models.Index(condition=models.Q(("fed_at__isnull", False)), fields=["fed_at"], name="rag_outbox_fed"),
                ],
            },
        ),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
    ]
