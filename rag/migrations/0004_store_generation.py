"""Which state of a store a search saw: a number that grows with every commit that can change one.

Each transaction that changes a store adds one row of its own, so writers never wait for each
other; a store's generation is the sum of the rows that are committed. Transactions that commit in
another order than they began are counted when they commit, which no sequence would do. Steps are
random: after a restored backup or a failover the numbers do not come again with other contents.
"""

from django.db import migrations

TABLES = """
CREATE TABLE rag_store_change (
  store_id bigint NOT NULL, tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
  step bigint NOT NULL DEFAULT 1 + floor(random() * 2147483647),
  PRIMARY KEY (store_id, tx) INCLUDE (step)
);
-- What was folded from the rows above.
CREATE TABLE rag_store_generation (store_id bigint PRIMARY KEY, total bigint NOT NULL);
"""

DROP_TABLES = "DROP TABLE rag_store_change, rag_store_generation;"

# A row of an equal number may have come with a restored dump, hence the sum.
_NOTE = """ON CONFLICT (store_id, tx) DO UPDATE
    SET step = rag_store_change.step + excluded.step;"""

FUNCTIONS = f"""
CREATE FUNCTION rag_note_rows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO rag_store_change (store_id) SELECT DISTINCT store_id FROM new_rows {_NOTE}
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO rag_store_change (store_id) SELECT DISTINCT store_id FROM old_rows {_NOTE}
  ELSE
    INSERT INTO rag_store_change (store_id)
      SELECT store_id FROM old_rows UNION SELECT store_id FROM new_rows {_NOTE}
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION rag_note_file() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO rag_store_change (store_id)
    SELECT DISTINCT id FROM unnest(ARRAY[OLD.store_id, NEW.store_id]) id {_NOTE}
  RETURN NULL;
END $$;

CREATE FUNCTION rag_note_store() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO rag_store_change (store_id) VALUES (NEW.id) {_NOTE}
  RETURN NULL;
END $$;

CREATE FUNCTION rag_note_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO rag_store_change (store_id) SELECT id FROM rag_store {_NOTE}
  RETURN NULL;
END $$;
"""

DROP_FUNCTIONS = """
DROP FUNCTION rag_note_all, rag_note_store, rag_note_file, rag_note_rows;
"""

# Once a statement. A file's restrictions are found in the index tables, which follow them by
# triggers of their own; statistics change a score when they are rolled up, which empties the deltas.
_ROWS = {
    "rag_chunk": ("INSERT", "UPDATE", "DELETE"),
    "rag_chunk_vec": ("INSERT", "UPDATE", "DELETE"),
    "rag_chunk_lex": ("INSERT", "UPDATE", "DELETE"),
    "rag_term_delta": ("DELETE",),
    "rag_term_pack": ("INSERT", "UPDATE", "DELETE"),
    "rag_store_reader_groups": ("INSERT", "UPDATE", "DELETE"),
    "rag_store_editor_groups": ("INSERT", "UPDATE", "DELETE"),
}
_SEEN = {
    "INSERT": "NEW TABLE AS new_rows",
    "DELETE": "OLD TABLE AS old_rows",
    "UPDATE": "OLD TABLE AS old_rows NEW TABLE AS new_rows",
}
_EMPTIED = (*_ROWS, "rag_term_stat", "rag_file")

STATEMENT_TRIGGERS = "\n".join(
    f"CREATE TRIGGER rag_note_{event.lower()} AFTER {event} ON {table}"
    f" REFERENCING {_SEEN[event]} FOR EACH STATEMENT EXECUTE FUNCTION rag_note_rows();"
    for table, events in _ROWS.items()
    for event in events
) + "\n".join(
    f"CREATE TRIGGER rag_note_truncate AFTER TRUNCATE ON {table}"
    " FOR EACH STATEMENT EXECUTE FUNCTION rag_note_all();"
    for table in _EMPTIED
)

# Row by row where most updates are of no concern: progress while a file is indexed, and texts that
# would be copied whole. Columns that a store gets one day count without being named here.
ROW_TRIGGERS = """
CREATE TRIGGER rag_note_update
  AFTER UPDATE OF name, metadata, content_type, n_chunks, store_id ON rag_file FOR EACH ROW
  WHEN ((OLD.name, OLD.metadata, OLD.content_type, OLD.n_chunks, OLD.store_id)
    IS DISTINCT FROM (NEW.name, NEW.metadata, NEW.content_type, NEW.n_chunks, NEW.store_id))
  EXECUTE FUNCTION rag_note_file();
CREATE TRIGGER rag_note_insert AFTER INSERT ON rag_store FOR EACH ROW
  EXECUTE FUNCTION rag_note_store();
CREATE TRIGGER rag_note_update AFTER UPDATE ON rag_store FOR EACH ROW
  WHEN (to_jsonb(OLD) - 'updated_at' IS DISTINCT FROM to_jsonb(NEW) - 'updated_at')
  EXECUTE FUNCTION rag_note_store();
"""

DROP_ROW_TRIGGERS = """
DROP TRIGGER rag_note_update ON rag_store;
DROP TRIGGER rag_note_insert ON rag_store;
DROP TRIGGER rag_note_update ON rag_file;
"""

DROP_STATEMENT_TRIGGERS = "\n".join(
    f"DROP TRIGGER rag_note_{event.lower()} ON {table};"
    for table, events in _ROWS.items()
    for event in events
) + "\n".join(f"DROP TRIGGER rag_note_truncate ON {table};" for table in _EMPTIED)


class Migration(migrations.Migration):
    dependencies = [("rag", "0003_keys_and_vocabulary")]
    operations = [
        migrations.RunSQL(TABLES, DROP_TABLES),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        migrations.RunSQL(STATEMENT_TRIGGERS, DROP_STATEMENT_TRIGGERS),
        migrations.RunSQL(ROW_TRIGGERS, DROP_ROW_TRIGGERS),
    ]
