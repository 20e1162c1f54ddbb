"""Admin benchmark, its data: many rows made by the database itself, and three users.

Chunks have texts and lexical rows, no vectors: lists and their search boxes read none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Group, Permission, User
from django.db import connection

from rag.providers.postgres.db.literals import DIMENSIONS
from rag.providers.postgres.lexical.bm25 import term_key
from rag.services.stores.lifecycle import create_store
from rag.stages.text.terms import index_terms

N_STORES, N_EDITED, CHUNKS_A_FILE = 20, 5, 10
# A small store filled after all others: what its editor may see stands at one end of every list.
N_LATE = 100
N_WORDS, WORDS_A_CHUNK = 2000, 12
# Some 7,000 questions a day: the first page looks at two weeks of them.
N_QUERIES = 100_000
N_GOLDEN = 10_000

_FILES = """
INSERT INTO rag_file (store_id, name, sha256, content, size, kind, encoding, encoding_override,
  status, progress, canonical_text, pages, blocks, parser, warnings, content_type, metadata,
  remote_name, revision, n_chunks, created_at, updated_at)
SELECT (%(stores)s::bigint[])[n %% 20 + 1], 'report ' || w.word || ' ' || n || '.pdf', md5(n::text),
  'x', 1000 + n, 'pdf', '', '', CASE WHEN n %% 500 = 0 THEN 'error' ELSE 'completed' END, '{}',
  repeat(w.word || ' ', 600), '[{"number": 1, "label": "1", "start": 0, "end": 2000,
    "has_text_layer": true}, {"number": 2, "label": "2", "start": 2000, "end": 3600,
    "has_text_layer": true}]', '[]', 'pdf/1',
  CASE WHEN n %% 50 = 0 THEN '[{"message": "odd", "hint": "", "params": {}}]' ELSE '[]' END::jsonb,
  'document', '{}', '', 1, %(per)s,
  now() - n * interval '1 minute', now() - n * interval '1 minute'
FROM generate_series(1, %(n)s) n JOIN bench_word w ON w.id = n %% %(words)s
"""
# Some words are in many texts and most in few, as in any language.
_CHUNKS = """
INSERT INTO rag_chunk (file_id, store_id, ordinal, char_start, char_end, own_start, page_first,
  page_last, heading_path, block_kinds, token_count, content_type, text, context, sha256, enabled,
  is_live, revision, file_revision)
SELECT f.id, f.store_id, o, o * 300, o * 300 + 300, o * 300, 1, 1, '["Part"]', '[]', 60, 'document',
  (SELECT string_agg(w.word, ' ') FROM generate_series(1, %(a_chunk)s) i JOIN bench_word w
    ON w.id = floor(%(words)s * power(((f.id * 31 + o * 17 + i * 101) * 7919 %% 100003)
      / 100003::float8, 3))) || repeat(' of the', 30),
  '', '', (f.id + o) %% 1000 > 0, true, 1, 1
FROM rag_file f, generate_series(0, %(per)s - 1) o ORDER BY f.id, o
"""
_TERMS = """
INSERT INTO rag_chunk_lex (chunk_id, file_id, store_id, len, enabled, is_han, content_type, w)
SELECT c.id, c.file_id, c.store_id, count(*), c.enabled, false, 'document',
  ('{{' || string_agg(DISTINCT k.key || ':1', ',') || '}}/{dimensions}')::sparsevec
FROM rag_chunk c, string_to_table(split_part(c.text, ' of the', 1), ' ') t
JOIN bench_word w ON w.word = t JOIN bench_key k ON k.word_id = w.id
WHERE k.store_id = c.store_id GROUP BY c.id
"""
_COUNTS = """
INSERT INTO rag_term_stat (store_id, key, df)
SELECT c.store_id, k.key, count(*) FROM rag_chunk c,
  string_to_table(split_part(c.text, ' of the', 1), ' ') t
JOIN bench_word w ON w.word = t JOIN bench_key k ON k.word_id = w.id
WHERE k.store_id = c.store_id GROUP BY 1, 2
"""
_INDEX = "SELECT indexdef FROM pg_indexes WHERE indexname = 'rag_chunk_lex_terms'"
_QUERIES = """
INSERT INTO rag_querylog (kind, query, store_ids, settings_hash, mode, top_k, chunk_ids, confidence,
  timings_ms, answer, citations, created_at)
SELECT 'ask', 'what of ' || w.word, ARRAY[(%(stores)s::bigint[])[n %% 20 + 1]], '', 'hybrid', 5,
  CASE WHEN n %% 7 = 0 THEN '{}' ELSE ARRAY[n, n + 1] END::bigint[], (n %% 100) / 100.0,
  '{"total": 12.5, "sql": 8}', 'An answer [1].', jsonb_build_array(jsonb_build_object(
    'number', 1, 'verdict', 'verified', 'file_id', n %% 5000 + 1, 'quote', 'of')),
  now() - n * interval '10 seconds'
FROM generate_series(1, %(n)s) n JOIN bench_word w ON w.id = n %% %(words)s
"""
_REVISIONS = """
INSERT INTO rag_chunkrevision (chunk_id, revision, text, char_start, char_end, file_revision,
  replaced_at) SELECT id, 1, 'old', 0, 3, 1, now() FROM rag_chunk WHERE id %% 20 = 0
"""
_USAGE = """
INSERT INTO rag_usagerecord (kind, provider, model, created_at, agent, currency, is_estimated,
  prompt_sha256, run, user_id, store_id)
SELECT 'ask', 'p', 'm' || n %% 5, now() - n * interval '20 seconds', '', '', false, '', '',
  %(user)s, (%(stores)s::bigint[])[n %% 20 + 1] FROM generate_series(1, %(n)s) n
"""
_AUDIT = """
INSERT INTO audit_entry (at, action, kind, object_id, label, store_id, after, edge, username)
SELECT created_at, action, 'file', id, name, store_id, '{"revision": 1}', 'admin', 'boss'
FROM rag_file, unnest(ARRAY['insert', 'update']) action
"""
_GOLDEN = """
INSERT INTO rag_goldenquestion (store_id, query, enabled, note, origin, created_at, updated_at)
SELECT (%(stores)s::bigint[])[n %% 20 + 1], 'what of ' || n, true, '', 'csv', now(), now()
FROM generate_series(1, %(n_golden)s) n
"""
_JOBS = """
INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, args, status, attempts)
SELECT 'index', 'rag.index_file', 0, 'file:' || id, jsonb_build_object('file_id', id),
  CASE WHEN id %% 100 = 0 THEN 'failed' ELSE 'succeeded' END::procrastinate_job_status, 1
FROM rag_file
"""


def build_desk(n_files: int) -> tuple[User, User, User]:
    """Return a superuser, an editor of a quarter of the full stores, and one of a small late one.

    The first store of each is full of everything that the desk shows.
    """
    admin = User.objects.create_superuser("boss")
    editor, latecomer = _editor("editor"), _editor("latecomer")
    stores = [create_store(name=f"Store {n}", owner=admin) for n in range(N_STORES)]
    late = create_store(name="Store that came late", owner=admin)
    for store in stores[:N_EDITED]:
        store.editor_groups.add(*editor.groups.all())
    late.editor_groups.add(*latecomer.groups.all())
    ids = [store.pk for store in stores]
    given = {
        "stores": ids,
        "n": n_files,
        "per": CHUNKS_A_FILE,
        "words": N_WORDS,
        "a_chunk": WORDS_A_CHUNK,
        "user": editor.pk,
        "n_golden": N_GOLDEN,
    }
    few = {
        **given,
        "stores": [late.pk] * N_STORES,
        "n": N_LATE,
        "user": latecomer.pk,
        "n_golden": 10,
    }
    with _unchecked():
        _words([*ids, late.pk])
        for sql, one in itertools.product((_FILES, _GOLDEN), (given, few)):
            _run(sql, one)
        for sql in (_CHUNKS, _COUNTS, _REVISIONS):
            _run(sql, given)
        _index_words(given)
        for sql in (_JOBS, _AUDIT):
            _run(sql, given)
        for sql in (_QUERIES, _USAGE):
            _run(sql, few)
            _run(sql, {**given, "n": N_QUERIES})
        _run("UPDATE rag_store SET n_chunks = %(n)s", {"n": n_files * CHUNKS_A_FILE // N_STORES})
        _run(
            "UPDATE rag_store SET n_chunks = %(n)s WHERE id = %(pk)s",
            {"n": N_LATE * CHUNKS_A_FILE, "pk": late.pk},
        )
    _run("VACUUM ANALYZE", {})
    return admin, editor, latecomer


def _editor(name: str) -> User:
    person = User.objects.create_user(name, is_staff=True)
    person.groups.add(Group.objects.create(name=f"{name}s"))
    person.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label__in=("rag", "agents", "procrastinate")
        ).exclude(codename__contains="apikey")
    )
    return person


def word(n: int) -> str:
    """Return the n-th made-up word; the first are the frequent ones."""
    syllables = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]
    first, rest = n % len(syllables), n // len(syllables)
    return syllables[first] + syllables[rest % len(syllables)] + syllables[(n * 13) % 70] + "x"


def _index_words(given: dict[str, object]) -> None:
    """Fill the lexical index, whose own index is made at once when all is there."""
    with connection.cursor() as cursor:
        cursor.execute(_INDEX)
        index = cursor.fetchone()[0]
    _run("DROP INDEX rag_chunk_lex_terms", {})
    _run(_TERMS.format(dimensions=DIMENSIONS), given)
    _run(index, {})


def _words(store_ids: list[int]) -> None:
    _run("CREATE TEMP TABLE bench_word (id int PRIMARY KEY, word text)", {})
    _run("CREATE TEMP TABLE bench_key (store_id int, word_id int, key int)", {})
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO bench_word VALUES (%s, %s)", [(n, word(n)) for n in range(N_WORDS)]
        )
        cursor.executemany(
            "INSERT INTO bench_key VALUES (%s, %s, %s)",
            [
                (store_id, n, term_key(store_id, term))
                for n in range(N_WORDS)
                for term in index_terms(word(n))
                for store_id in store_ids
            ],
        )
    _run("CREATE INDEX ON bench_key (store_id, word_id); ANALYZE bench_word, bench_key", {})


@contextmanager
def _unchecked() -> Iterator[None]:
    """Insert without triggers and foreign keys, which would take most of the time."""
    _run("SET session_replication_role = replica", {})
    try:
        yield
    finally:
        _run("SET session_replication_role = origin", {})


def _run(sql: str, given: dict[str, object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, given or None)
