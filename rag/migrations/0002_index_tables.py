"""Vectors, BM25 and term statistics: tables that Django's models cannot describe.

Rows of both index tables follow their chunk by triggers, so that no path of deletion, disabling
or restriction can leave the index behind the facts.
"""

from django.db import migrations

TABLES = """
CREATE TABLE rag_chunk_vec (
  space_id int NOT NULL, store_id int NOT NULL, chunk_id bigint NOT NULL, file_id bigint NOT NULL,
  enabled boolean NOT NULL DEFAULT true, is_han boolean NOT NULL DEFAULT false,
  content_type text NOT NULL, restricted int[], embedding halfvec NOT NULL,
  PRIMARY KEY (chunk_id, space_id)
) PARTITION BY LIST (space_id);

CREATE TABLE rag_chunk_lex (
  chunk_id bigint PRIMARY KEY, file_id bigint NOT NULL, store_id int NOT NULL, len int NOT NULL,
  enabled boolean NOT NULL DEFAULT true, is_han boolean NOT NULL DEFAULT false,
  content_type text NOT NULL, restricted int[], w sparsevec NOT NULL
  -- Weights that are compressed cost a search 1 ms; the draft's stay as they are when copied here.
) WITH (toast_tuple_target = 8160);
ALTER TABLE rag_chunk_lex ALTER w SET STORAGE MAIN;
-- The keys of a chunk's terms. They are not stored beside w, which holds them already.
CREATE FUNCTION rag_terms(w sparsevec) RETURNS int[]
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 1000 AS
  $$ SELECT split_part(regexp_replace(w::text, ':[^,}]+', '', 'g'), '/', 1)::int[] $$;
CREATE INDEX rag_chunk_lex_terms ON rag_chunk_lex
  USING gin (rag_terms(w)) WITH (fastupdate = on, gin_pending_list_limit = 4096);
CREATE INDEX rag_chunk_lex_file ON rag_chunk_lex (file_id);

-- A term's df is the sum of what the packed rows say (keys from first_key on, in order) and of what
-- came on top since they were packed.
CREATE TABLE rag_term_pack (
  store_id int NOT NULL, first_key int NOT NULL, keys int[] NOT NULL, dfs int[] NOT NULL,
  PRIMARY KEY (store_id, first_key)
);
CREATE TABLE rag_term_stat (
  store_id int NOT NULL, key int NOT NULL, df int NOT NULL, PRIMARY KEY (store_id, key)
) WITH (fillfactor = 80);
CREATE VIEW rag_term_df AS SELECT store_id, key, sum(df)::int AS df FROM (
  SELECT store_id, key, df FROM rag_term_stat UNION ALL
  SELECT p.store_id, u.key, u.df FROM rag_term_pack p, unnest(p.keys, p.dfs) u(key, df)) x
  GROUP BY store_id, key;
CREATE TABLE rag_term_delta (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, store_id int NOT NULL,
  keys int[] NOT NULL, dn int[] NOT NULL, chunks int NOT NULL, len bigint NOT NULL
);

CREATE TABLE rag_chunk_draft (
  file_id bigint NOT NULL REFERENCES rag_file ON DELETE CASCADE, ordinal int NOT NULL,
  fingerprint text NOT NULL, facts jsonb NOT NULL, text text NOT NULL, sha256 text NOT NULL,
  is_han boolean NOT NULL, len int NOT NULL, w sparsevec NOT NULL,
  embedding halfvec, PRIMARY KEY (file_id, ordinal)
) WITH (toast_tuple_target = 8160);
ALTER TABLE rag_chunk_draft ALTER embedding SET STORAGE PLAIN;
"""

DROP_TABLES = """
DROP VIEW rag_term_df;
DROP TABLE rag_chunk_draft, rag_term_delta, rag_term_stat, rag_term_pack, rag_chunk_lex,
  rag_chunk_vec;
DROP FUNCTION rag_terms;
"""

TRIGGERS = """
CREATE FUNCTION rag_unindex(gone bigint[]) RETURNS void LANGUAGE sql AS $$
  DELETE FROM rag_chunk_vec WHERE chunk_id = ANY(gone);
  WITH l AS (DELETE FROM rag_chunk_lex WHERE chunk_id = ANY(gone) RETURNING store_id, rag_terms(w) AS terms, len),
  k AS (SELECT store_id, key, count(*)::int AS n FROM l, unnest(terms) key GROUP BY 1, 2),
  s AS (SELECT store_id, count(*)::int AS n, sum(len) AS len FROM l GROUP BY 1)
  INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len)
  SELECT s.store_id, coalesce(array_agg(k.key) FILTER (WHERE k.key IS NOT NULL), '{}'),
         coalesce(array_agg(-k.n) FILTER (WHERE k.key IS NOT NULL), '{}'), -s.n, -s.len
  FROM s LEFT JOIN k USING (store_id) GROUP BY s.store_id, s.n, s.len
$$;

CREATE FUNCTION rag_chunk_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM rag_unindex(array_agg(id)) FROM gone WHERE is_live;
  RETURN NULL;
END $$;
CREATE TRIGGER rag_chunk_gone AFTER DELETE ON rag_chunk
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION rag_chunk_gone();

CREATE FUNCTION rag_chunk_flags() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE rag_chunk_vec SET enabled = NEW.enabled, content_type = NEW.content_type
    WHERE chunk_id = NEW.id;
  UPDATE rag_chunk_lex SET enabled = NEW.enabled, content_type = NEW.content_type
    WHERE chunk_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER rag_chunk_flags AFTER UPDATE OF enabled, content_type ON rag_chunk
  FOR EACH ROW WHEN (OLD.enabled <> NEW.enabled OR OLD.content_type <> NEW.content_type)
  EXECUTE FUNCTION rag_chunk_flags();

CREATE FUNCTION rag_file_type() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE rag_chunk SET content_type = NEW.content_type WHERE file_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER rag_file_type AFTER UPDATE OF content_type ON rag_file
  FOR EACH ROW WHEN (OLD.content_type <> NEW.content_type) EXECUTE FUNCTION rag_file_type();

CREATE FUNCTION rag_restrict(files bigint[]) RETURNS void LANGUAGE sql AS $$
  WITH r AS (SELECT f AS file_id, (SELECT array_agg(group_id ORDER BY group_id)
    FROM rag_file_restricted_to m WHERE m.file_id = f) AS groups FROM unnest(files) f),
  v AS (UPDATE rag_chunk_vec c SET restricted = r.groups FROM r
    WHERE c.chunk_id IN (SELECT id FROM rag_chunk WHERE file_id = r.file_id AND is_live)
    AND c.file_id = r.file_id)
  UPDATE rag_chunk_lex c SET restricted = r.groups FROM r WHERE c.file_id = r.file_id
$$;
CREATE FUNCTION rag_restricted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  -- A revision that is being swapped in holds this lock and would not see the change.
  PERFORM 1 FROM rag_file WHERE id IN (SELECT file_id FROM changed) FOR NO KEY UPDATE;
  PERFORM rag_restrict(array_agg(DISTINCT file_id)) FROM changed;
  RETURN NULL;
END $$;
CREATE TRIGGER rag_restricted_in AFTER INSERT ON rag_file_restricted_to
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION rag_restricted();
CREATE TRIGGER rag_restricted_out AFTER DELETE ON rag_file_restricted_to
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION rag_restricted();

CREATE FUNCTION rag_store_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  DELETE FROM rag_term_pack WHERE store_id = OLD.id;
  DELETE FROM rag_term_stat WHERE store_id = OLD.id;
  DELETE FROM rag_term_delta WHERE store_id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER rag_store_gone AFTER DELETE ON rag_store
  FOR EACH ROW EXECUTE FUNCTION rag_store_gone();
"""

DROP_TRIGGERS = """
DROP TRIGGER rag_store_gone ON rag_store;
DROP TRIGGER rag_restricted_out ON rag_file_restricted_to;
DROP TRIGGER rag_restricted_in ON rag_file_restricted_to;
DROP TRIGGER rag_file_type ON rag_file;
DROP TRIGGER rag_chunk_flags ON rag_chunk;
DROP TRIGGER rag_chunk_gone ON rag_chunk;
DROP FUNCTION rag_store_gone, rag_restricted, rag_restrict, rag_file_type, rag_chunk_flags,
  rag_chunk_gone, rag_unindex;
"""


class Migration(migrations.Migration):
    dependencies = [("rag", "0001_initial")]
    operations = [
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS vector", migrations.RunSQL.noop),
        migrations.RunSQL(TABLES, DROP_TABLES),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
    ]
