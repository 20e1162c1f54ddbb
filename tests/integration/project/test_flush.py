"""``manage.py flush``: every row of ours goes, also of tables that no model describes."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection

from project.db.operations import DatabaseOperations
from rag import models
from rag.core.access import Scope
from rag.providers.postgres.vectors.spaces import create_partition
from rag.services.files.upload import upload_file
from rag.services.ingest.inline_worker import run_until_indexed
from rag.services.stores.lifecycle import create_store
from tests.index_hits import index_hits

TEXT = "The dosing pump is primed before every shift. 加药泵每班前须灌注。"


def rows(query: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def counts() -> dict[str, int]:
    """Return the number of rows of each table that holds some, by name."""
    tables = rows(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind IN ('r', 'p')"
    )
    found = {str(name): rows(f'SELECT count(*) FROM "{name}"')[0][0] for (name,) in tables}
    return {name: int(str(n)) for name, n in found.items() if n}


def partitions() -> list[str]:
    found = rows(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'rag_chunk_vec'::regclass"
    )
    return sorted(str(name) for (name,) in found)


def fill(name: str) -> models.Store:
    store = create_store(name=name, embedding_model="use:multilingual-v3")
    taken = upload_file(store=store, name="a.txt", content=io.BytesIO(TEXT.encode()))
    run_until_indexed(file_ids=[taken.file.pk], on_progress=lambda progress: None)
    taken.file.refresh_from_db()
    assert taken.file.status == models.File.Status.COMPLETED, taken.file.error
    return store


@pytest.mark.django_db(transaction=True)
def test_after_a_flush_nothing_is_left_and_everything_can_begin_anew() -> None:
    store = fill("before")
    with connection.cursor() as cursor:
        # A draft that a dead worker left, and changes that nobody has rolled up.
        cursor.execute(
            "INSERT INTO rag_chunk_draft (file_id, ordinal, fingerprint, facts, text, sha256,"
            " is_han, len, w) SELECT id, 0, 'x', '{}', 'x', 'x', false, 1, '{1:1}/1000000000'"
            " FROM rag_file"
        )
        cursor.execute(
            "INSERT INTO rag_term_delta (store_id, keys, dn, chunks, len)"
            " VALUES (%s, '{1}', '{1}', 1, 1)",
            [store.pk],
        )
    assert {
        "rag_chunk_vec",
        "rag_chunk_lex",
        "rag_chunk_draft",
        "rag_term_delta",
        "procrastinate_jobs",
    } <= set(counts())
    call_command("flush", interactive=False, verbosity=0)
    # What migrations wrote stays, and Django brings its own lists back.
    # The audit outlives what it tells of.
    kept = {"django_migrations", "django_content_type", "auth_permission", "audit_entry"}
    assert set(counts()) <= kept
    assert partitions() == []
    fill("after")
    (hit,) = index_hits(
        query="dosing pump", scope=Scope.operator(), stores=list(models.Store.objects.all())
    ).hits
    assert hit.text == TEXT
    assert counts()["rag_chunk_lex"] == counts()["rag_chunk_vec"] == 1


@pytest.mark.django_db(transaction=True)
def test_a_space_that_gets_an_old_number_gets_its_own_dimension() -> None:
    create_partition(1, 3)
    call_command("flush", interactive=False, verbosity=0)
    space = models.EmbeddingSpace.objects.create(model="use:five", dim=5)
    assert space.pk == 1
    create_partition(space.pk, space.dim)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO rag_chunk_vec (space_id, store_id, chunk_id, file_id, content_type,"
            " embedding) VALUES (1, 1, 1, 1, 'document', %s)",
            [str(np.ones(5).tolist())],
        )


@pytest.mark.django_db
def test_the_statements_can_be_read_before_they_are_run() -> None:
    create_partition(7, 3)
    out = io.StringIO()
    call_command("sqlflush", stdout=out)
    script = out.getvalue()
    (truncate,) = re.findall(r"TRUNCATE (.*?) RESTART IDENTITY;", script)
    names = re.findall(r'"(\w+)"', truncate)
    assert len(names) == len(set(names))
    assert {
        "rag_store",
        "rag_chunk_vec",
        "rag_chunk_lex",
        "rag_term_pack",
        "rag_chunk_draft",
        "procrastinate_jobs",
        "auth_user",
    } <= set(names)
    assert "django_migrations" not in names
    assert "rag_chunk_vec_s7" not in names
    assert 'DROP TABLE "rag_chunk_vec_s7";' in script


@pytest.mark.django_db
def test_tables_of_others_in_the_same_database_are_left_alone() -> None:
    with connection.cursor() as cursor:
        for name in ("ragtime", "bookshop_rag_chunk", "messages_archive", "postgres_log"):
            cursor.execute(f"CREATE TABLE {name} (id int)")
        cursor.execute("CREATE SCHEMA other")
        cursor.execute("CREATE TABLE other.rag_thing (id int)")
    script = " ".join(DatabaseOperations(connection).sql_flush(_Plain(), ["rag_store"]))
    assert '"rag_chunk_lex"' in script
    for name in ("ragtime", "bookshop", "messages", "postgres", "rag_thing"):
        assert name not in script


@pytest.mark.django_db
def test_no_tables_mean_no_statements() -> None:
    assert DatabaseOperations(connection).sql_flush(_Plain(), []) == []


class _Plain:
    """A style without colours."""

    def __getattr__(self, name: str) -> object:
        return str
