"""kill -9 of worker and Postgres, twenty times at random moments: nothing lost, nothing twice.

Everything runs in processes of its own on a server of its own, as an operator would run it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from project import postgres
from project.postgres_places import USER, install_dir, socket_dir

BASE_DIR = Path(__file__).resolve().parents[2]
DOCUMENTS = BASE_DIR / "rag" / "demo" / "documents"
N_KILLS = 20
SEED = 20261128
CHUNKS = """
SELECT f.name, c.ordinal, c.char_start, c.char_end, c.text FROM rag_chunk c
JOIN rag_file f ON f.id = c.file_id JOIN rag_store s ON s.id = f.store_id
WHERE s.name = %s AND c.is_live ORDER BY 1, 2
"""
UNPAIRED = """
SELECT count(*) FROM (SELECT id FROM rag_chunk WHERE is_live) c
FULL JOIN rag_chunk_vec v ON v.chunk_id = c.id FULL JOIN rag_chunk_lex l ON l.chunk_id = c.id
WHERE c.id IS NULL OR v.chunk_id IS NULL OR l.chunk_id IS NULL
"""


class Installation:
    """A fresh installation with a fast model and a server of its own."""

    def __init__(self, var: Path) -> None:
        self.var = var
        self.environment = os.environ | {
            "CITABLE_VAR": str(var), "DATABASE_URL": "", "LOG_LEVEL": "ERROR",
            "RAG_EMBEDDING_MODEL": "use:multilingual-v3", "WORKER_HEARTBEAT": "0.5",
            "WORKER_STALLED_AFTER": "2", "POSTGRES_OPTIONS": "shared_buffers=32MB",
        }  # fmt: skip

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "manage.py", *command], cwd=BASE_DIR, env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *command], cwd=BASE_DIR, env=self.environment,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_postgres(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "project.db", "start"], cwd=BASE_DIR, env=self.environment,
            stdout=subprocess.DEVNULL, check=True, timeout=60,
        )  # fmt: skip

    def kill_postgres(self) -> None:
        pid_file = self.var / "postgres" / "pgdata" / "postmaster.pid"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        host = str(socket_dir(self.var / "postgres"))
        with psycopg.connect(host=host, user=USER, dbname="citable") as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def installation() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="citable-kill-", dir="/tmp"))
    folder.chmod(0o711)
    yield Installation(folder)
    postgres.stop(install_dir(), folder / "postgres")
    shutil.rmtree(folder)


def test_twenty_kills_lose_nothing_and_double_nothing(installation: Installation) -> None:
    installation.run("migrate", "-v", "0")
    installation.run("rag_ingest", str(DOCUMENTS), "--store", "Calm", "--create")
    expected = installation.rows(CHUNKS, "Calm")
    installation.run("rag_ingest", str(DOCUMENTS), "--store", "Stormy", "--create", "--no-wait")
    dice = random.Random(SEED)
    for n in range(N_KILLS):
        worker = installation.start("procrastinate", "worker")
        time.sleep(dice.uniform(0.8, 2.6))
        if n % 4 == 3:
            installation.kill_postgres()
        worker.kill()
        worker.wait()
        if n == N_KILLS // 2:
            # What is served already is made anew under the storm, too.
            installation.run("rag_reindex", "--store", "Calm", "--fresh", "--no-wait")
        if n > N_KILLS // 2:
            installation.start_postgres()
            assert installation.rows(CHUNKS, "Calm") == expected
    installation.run("rag_ingest", str(DOCUMENTS), "--store", "Stormy")
    installation.run("rag_reindex", "--store", "Calm")
    states = installation.rows("SELECT DISTINCT status FROM rag_file")
    assert states == [("completed",)]
    assert installation.rows(CHUNKS, "Stormy") == expected
    assert installation.rows(CHUNKS, "Calm") == expected
    assert installation.rows(UNPAIRED) == [(0,)]
    assert installation.rows("SELECT count(*) FROM rag_chunk_draft") == [(0,)]
    counted = "SELECT count(*), sum(len) FROM rag_chunk_lex l JOIN rag_store s ON s.id = l.store_id"
    said = "SELECT n_chunks, sum_len FROM rag_store WHERE name = %s"
    for name in ("Calm", "Stormy"):
        truth = installation.rows(f"{counted} WHERE s.name = %s", name)
        assert installation.rows(said, name) == truth
