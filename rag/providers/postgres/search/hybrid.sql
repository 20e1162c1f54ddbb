-- One round trip: both legs, exact scores of their union in both, fusion, and the chunks' facts.
-- {vector_branches}, {words}, {filters} and the fusion parts are put together in hybrid.py; numbers
-- in them come from tables, values from people are bound.
WITH {question},
q AS MATERIALIZED (
  SELECT ('{{' || string_agg(key || ':' || idf::real, ',' ORDER BY key) || '}}/1000000000')::sparsevec AS sv,
    -- Candidates come from the rarest words: from 2,000 chunks always, from a fiftieth of the store while the
    -- words so far have less than the asked part of the question's weight.
    array_agg(key) FILTER (WHERE rn = 1 OR cum <= 2000 OR cum <= budget AND rarer < %(mass)s * whole) AS must,
    ('{{' || string_agg(key || ':1', ',' ORDER BY key) FILTER (WHERE is_code AND df <= 3) || '}}/1000000000')::sparsevec AS codes
  FROM t WHERE idf > 0),
i AS MATERIALIZED (SELECT store_id, sum(idf) AS sidf FROM t GROUP BY store_id),
v0 AS MATERIALIZED ({vector_branches}),
v AS MATERIALIZED (
  SELECT chunk_id, space_id, sim, row_number() OVER (ORDER BY place, sim DESC, chunk_id) AS r FROM (
    SELECT *, row_number() OVER (PARTITION BY space_id ORDER BY sim DESC, chunk_id) AS place FROM v0
  ) x WHERE place <= %(k)s),
l0 AS MATERIALIZED (
  SELECT x.chunk_id, -(x.w <#> (SELECT sv FROM q)) AS bm25 FROM rag_chunk_lex x
  WHERE {words} AND {filters}
  ORDER BY x.w <#> (SELECT sv FROM q) LIMIT %(k)s),{substrings}
l AS MATERIALIZED (
  SELECT chunk_id, bm25, row_number() OVER (ORDER BY bm25 DESC, chunk_id) AS r FROM {lexical} y
  WHERE bm25 > 0),
u AS MATERIALIZED (
  SELECT c.chunk_id, x.store_id, x.is_han, v.r AS vr, l.r AS lr, x.w,
    coalesce(v.space_id, {space_of_store}) AS space_id,
    coalesce(v.sim, {similarity}) AS sim,
    coalesce(l.bm25, -(x.w <#> (SELECT sv FROM q)), 0) AS bm25
  FROM (SELECT chunk_id FROM v UNION SELECT chunk_id FROM l) c
    JOIN rag_chunk_lex x USING (chunk_id) LEFT JOIN v USING (chunk_id) LEFT JOIN l USING (chunk_id)),
b AS (SELECT space_id, min(sim) AS lo, max(sim) AS hi FROM v GROUP BY space_id),
n AS (
  SELECT u.*, i.sidf, max(u.bm25) OVER () AS best,
    CASE WHEN lo IS NULL OR sim IS NULL THEN 0 WHEN hi = lo THEN (sim >= hi)::int
      ELSE least(1, greatest(0, (sim - lo) / (hi - lo))) END AS nv
  FROM u LEFT JOIN b USING (space_id) LEFT JOIN i USING (store_id)),
f AS (
  SELECT chunk_id, sim, bm25, vr, lr, w, {fused} AS score,
    coalesce(lr IS NOT NULL AND w <#> (SELECT codes FROM q) < 0, false) AS has_code FROM n),
g AS (SELECT *, has_code AND row_number() OVER (PARTITION BY has_code ORDER BY bm25 DESC, chunk_id) <= 2 AS pin FROM f),
p AS (
  -- A hit that holds the asked rare code is among the first three, wherever the vectors point.
  SELECT chunk_id, sim, bm25, vr, lr, w, pin, CASE WHEN pin THEN greatest(score,
      (SELECT score FROM g ORDER BY score DESC, chunk_id OFFSET 1 LIMIT 1)) ELSE score END AS score FROM g)
SELECT p.chunk_id, p.score, p.sim, p.bm25, p.vr, p.lr,
  ARRAY(SELECT key FROM t WHERE p.w <#> t.alone < 0) AS matched,
  c.revision, c.store_id, c.file_id, d.name, c.text, c.char_start, c.char_end, c.page_first,
  c.page_last, c.heading_path, c.content_type, c.token_count, d.metadata, c.context,
  c.parent_start
FROM (SELECT * FROM p ORDER BY score DESC, pin DESC, chunk_id LIMIT %(top)s) p
  JOIN rag_chunk c ON c.id = p.chunk_id JOIN rag_file d ON d.id = c.file_id
ORDER BY p.score DESC, p.pin DESC, p.chunk_id
