
-- A few Han characters asked alone may stand only inside longer words, which the terms do not say.
-- The texts themselves are looked through, but only when the terms have found too little.
s0 AS MATERIALIZED (
  SELECT x.chunk_id, (length(c.text) - length(replace(c.text, %(phrase)s, ''))) / length(%(phrase)s)::float8 AS tf
  FROM rag_chunk_lex x JOIN rag_chunk c ON c.id = x.chunk_id
  WHERE (SELECT count(*) FROM l0) < %(k)s AND c.text LIKE '%%' || %(phrase)s || '%%' AND {filters} LIMIT %(k)s),
s AS MATERIALIZED (
  SELECT chunk_id, tf * 2.2 / (tf + 1.2) * ln(1 + (greatest(%(total)s, d) - d + 0.5) / (d + 0.5)) AS bm25
  FROM s0, (SELECT count(*) AS d FROM s0) n),