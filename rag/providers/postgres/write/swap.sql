-- Makes a file's draft its live revision; run in order, in the transaction that holds the file's row.
-- A twin is the old chunk of an equal text, matched one to one in order.

-- step: Whether there are old chunks to step back, and how many draft rows rely on a vector that is gone.
WITH old AS (SELECT id, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk WHERE file_id = %(file)s AND file_revision < %(revision)s AND is_live),
  new AS (SELECT ordinal, embedding, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk_draft WHERE file_id = %(file)s)
  SELECT EXISTS (SELECT FROM old), count(*) FROM new LEFT JOIN old USING (sha256, n) WHERE new.embedding IS NULL
    AND NOT (EXISTS (SELECT FROM rag_chunk_vec v WHERE v.chunk_id = old.id AND v.space_id = %(space)s)
      AND EXISTS (SELECT FROM rag_chunk_lex l WHERE l.chunk_id = old.id))

-- step: Out of the index: chunks without a twin, and twins that get a new vector.
WITH old AS (SELECT id, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk WHERE file_id = %(file)s AND file_revision < %(revision)s AND is_live),
  new AS (SELECT ordinal, facts, embedding, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk_draft WHERE file_id = %(file)s),
  twins AS (SELECT old.id, new.* FROM old JOIN new USING (sha256, n)) SELECT rag_unindex(array_agg(old.id)) FROM old LEFT JOIN twins USING (id)
    WHERE twins.id IS NULL OR twins.embedding IS NOT NULL

-- step: All old rows step back first, the kept ones with their new places: positions may be traded.
WITH old AS (SELECT id, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk WHERE file_id = %(file)s AND file_revision < %(revision)s AND is_live),
  new AS (SELECT ordinal, facts, embedding, sha256, row_number() OVER (PARTITION BY sha256 ORDER BY ordinal) AS n
    FROM rag_chunk_draft WHERE file_id = %(file)s),
  twins AS (SELECT old.id, new.* FROM old JOIN new USING (sha256, n)), kept AS (
      UPDATE rag_chunk c SET is_live = false, file_revision = %(revision)s, ordinal = t.ordinal,
        char_start = f.char_start, char_end = f.char_end, own_start = f.own_start,
        page_first = f.page_first, page_last = f.page_last, heading_path = f.heading_path,
        block_kinds = f.block_kinds, token_count = f.token_count, context = f.context,
        parent_start = f.parent_start
      FROM twins t, jsonb_to_record(t.facts) AS f(char_start int, char_end int, own_start int, page_first int, page_last int, heading_path jsonb, block_kinds jsonb, token_count int, context text, parent_start int) WHERE c.id = t.id RETURNING c.id)
    UPDATE rag_chunk SET is_live = false WHERE file_id = %(file)s AND is_live
      AND id NOT IN (SELECT id FROM kept) AND file_revision < %(revision)s

-- step: The kept ones come forward, and those that people touched, which the caller has moved.
UPDATE rag_chunk SET is_live = true WHERE file_id = %(file)s AND file_revision = %(revision)s

-- step: New chunks.
INSERT INTO rag_chunk (file_id, store_id, ordinal, char_start, char_end, own_start, page_first,
      page_last, heading_path, block_kinds, token_count, context, parent_start, content_type, text, sha256, enabled,
      is_live, revision, file_revision)
    SELECT d.file_id, %(store)s, d.ordinal, f.char_start, f.char_end, f.own_start, f.page_first,
      f.page_last, f.heading_path, f.block_kinds, f.token_count, f.context, f.parent_start, %(type)s, d.text, d.sha256,
      true, true, 1, %(revision)s
    FROM rag_chunk_draft d, jsonb_to_record(d.facts) AS f(char_start int, char_end int, own_start int, page_first int, page_last int, heading_path jsonb, block_kinds jsonb, token_count int, context text, parent_start int) WHERE d.file_id = %(file)s
      AND NOT EXISTS (SELECT FROM rag_chunk c WHERE c.file_id = d.file_id AND c.ordinal = d.ordinal AND c.is_live)
    ORDER BY d.ordinal

-- step: Their vectors.
INSERT INTO rag_chunk_vec (space_id, store_id, chunk_id, file_id, enabled, is_han, content_type,
      restricted, embedding)
    SELECT %(space)s, %(store)s, c.id, c.file_id, c.enabled, d.is_han, c.content_type,
      (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to WHERE file_id = %(file)s), d.embedding
    FROM rag_chunk_draft d JOIN rag_chunk c ON c.file_id = d.file_id AND c.ordinal = d.ordinal AND c.is_live
    WHERE d.file_id = %(file)s AND d.embedding IS NOT NULL

-- step: Their terms, and what they add to the statistics.
WITH l AS (
      INSERT INTO rag_chunk_lex (chunk_id, file_id, store_id, len, enabled, is_han, content_type, restricted, w)
      SELECT c.id, c.file_id, %(store)s, d.len, c.enabled, d.is_han, c.content_type,
        (SELECT array_agg(group_id ORDER BY group_id) FROM rag_file_restricted_to WHERE file_id = %(file)s), d.w
      FROM rag_chunk_draft d JOIN rag_chunk c ON c.file_id = d.file_id AND c.ordinal = d.ordinal AND c.is_live
      WHERE d.file_id = %(file)s AND d.embedding IS NOT NULL RETURNING len, w),
    k AS (SELECT key, count(*)::int AS n FROM l, unnest(rag_terms(w)) key GROUP BY 1)
    INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len)
    SELECT %(store)s, coalesce((SELECT array_agg(key) FROM k), '{}'), coalesce((SELECT array_agg(n) FROM k), '{}'),
      count(*), coalesce(sum(len), 0) FROM l HAVING count(*) > 0
