-- The question's words: each key with its weight, how rare it is in its store, and who is rarer.
k AS (
  SELECT * FROM unnest(%(key_stores)s::int[], %(keys)s::int[], %(weights)s::float8[], %(codes)s::bool[])
    AS k(store_id, key, weight, is_code)),
t AS MATERIALIZED (
  SELECT *, sum(df) OVER w AS cum, row_number() OVER (PARTITION BY store_id, is_new ORDER BY df, key) AS rn,
    sum(idf) OVER w - idf AS rarer, sum(idf) OVER (PARTITION BY store_id) AS whole FROM (
  SELECT k.store_id, k.key, k.is_code, ('{{' || k.key || ':1}}/1000000000')::sparsevec AS alone, d.df, ts.df IS NULL AS is_new,
    k.weight * ln(1 + (greatest(s.n_chunks, d.df) - d.df + 0.5) / (d.df + 0.5)) AS idf,
    0.02 * s.n_chunks AS budget
  FROM k JOIN rag_store s ON s.id = k.store_id
    LEFT JOIN LATERAL (
      SELECT p.dfs[array_position(p.keys, k.key)] AS df FROM rag_term_pack p
      WHERE p.store_id = k.store_id AND p.first_key <= k.key ORDER BY p.first_key DESC LIMIT 1) tp ON true
    LEFT JOIN rag_term_stat tn ON tn.store_id = k.store_id AND tn.key = k.key
    CROSS JOIN LATERAL (SELECT coalesce(tp.df + tn.df, tp.df, tn.df) AS df) ts,
    -- A word whose statistics are not rolled up yet counts as once seen, so it is found at commit.
    LATERAL (SELECT greatest(coalesce(ts.df, 1), 1) AS df) d) x
  WINDOW w AS (PARTITION BY store_id ORDER BY df, key))
