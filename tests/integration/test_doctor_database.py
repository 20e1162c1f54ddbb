"""The doctor before a database that cannot be read: one finding in place of one for each check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from rag.services.doctor import examine

ROOT = Path(__file__).resolve().parents[2]


def test_a_server_that_does_not_answer_is_one_finding(tmp_path: Path) -> None:
    environment = {
        "PATH": os.defpath, "CITABLE_VAR": str(tmp_path),
        "DATABASE_URL": "postgres://citable:secret-word@127.0.0.1:1/citable",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "manage.py", "rag_doctor", "--json"], cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    (finding,) = json.loads(done.stdout)["findings"]
    assert done.returncode == 2
    assert (finding["check"], finding["level"]) == ("database", "error")
    assert finding["what"].startswith("it does not answer: ")
    assert finding["todo"] == "Check DATABASE_URL and the server."
    assert "secret-word" not in done.stdout + done.stderr


@pytest.mark.django_db
def test_a_database_without_tables_is_one_finding() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE rag_store RENAME TO gone")
    ((name, _, (finding,)),) = examine()
    assert (name, finding.level) == ("database", "error")
    assert finding.what == 'relation "rag_store" does not exist'
    assert finding.todo == "Run: manage.py migrate"
