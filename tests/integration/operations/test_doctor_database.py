"""The doctor before a database that cannot be read: one finding in place of one for each check."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from django.db import connection

from rag.services.operations.doctor import run_checks
from tests.forked_processes import run_python


def examined(**settings: str) -> tuple[str, str]:
    """Return what the command says of the database, and what to do."""
    done = run_python("manage.py", "rag_doctor", "--json", env={"PATH": os.defpath, **settings})
    (finding,) = json.loads(done.stdout)["findings"]
    assert done.returncode == 2
    assert (finding["check"], finding["level"]) == ("database", "error")
    assert "secret-word" not in done.stdout + done.stderr
    return finding["what"], finding["todo"]


def test_a_server_that_does_not_answer_is_one_finding(tmp_path: Path) -> None:
    url = "postgres://citable:secret-word@127.0.0.1:1/citable"
    what, todo = examined(CITABLE_VAR=str(tmp_path), DATABASE_URL=url)
    assert what.startswith("it does not answer: ")
    assert todo == "Check DATABASE_URL and the server."


def test_an_embedded_server_that_cannot_start_is_one_finding() -> None:
    # Below /tmp itself: the data of a folder that is closed to the server's account lie elsewhere.
    with tempfile.TemporaryDirectory(prefix="citable-doctor-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        what, _ = examined(CITABLE_VAR=f'{folder}/quoted"')
    assert what.startswith(f'The database folder {folder}/quoted"/postgres has " in its path.')
    assert what.endswith("Set CITABLE_VAR to a folder without such characters.")


@pytest.mark.django_db
def test_a_role_that_may_not_read_is_told_so() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE doctor_without_rights; SET LOCAL ROLE doctor_without_rights")
    ((name, _, (finding,)),) = run_checks()
    assert (name, finding.what) == ("database", "permission denied for table rag_store")
    assert finding.todo == "Give the role of DATABASE_URL the right."


@pytest.mark.django_db
def test_a_database_without_tables_is_one_finding() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE rag_store RENAME TO gone")
    ((name, _, (finding,)),) = run_checks()
    assert (name, finding.level) == ("database", "error")
    assert finding.what == 'relation "rag_store" does not exist'
    assert finding.todo == "Run: manage.py migrate"
