"""kill -9 of worker and Postgres at random moments: nothing lost, nothing twice.

Eight times in the suite; CITABLE_KILLS says how many before a release, five seconds each.

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
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from project.postgres import server as postgres
from project.postgres.paths import USER, install_dir, socket_dir
from tests.fakes.openai_server import OpenAIServer
from tests.forked_commands import Commands

pytestmark = pytest.mark.slow

BASE_DIR = Path(__file__).resolve().parents[3]
DOCUMENTS = BASE_DIR / "rag" / "demo" / "documents"
N_KILLS = int(os.environ.get("CITABLE_KILLS", "8"))
SEED = 20261128
CHUNKS = """
SELECT f.name, c.ordinal, c.char_start, c.char_end, c.text FROM rag_chunk c
JOIN rag_file f ON f.id = c.file_id JOIN rag_store s ON s.id = f.store_id
WHERE s.name = %s AND c.is_live ORDER BY 1, 2
"""
SUMMED = f"SELECT count(*), sum(length(text)) FROM ({CHUNKS}) c"
UNPAIRED = """
SELECT count(*) FROM (SELECT id FROM rag_chunk WHERE is_live) c
FULL JOIN rag_chunk_vec v ON v.chunk_id = c.id FULL JOIN rag_chunk_lex l ON l.chunk_id = c.id
WHERE c.id IS NULL OR v.chunk_id IS NULL OR l.chunk_id IS NULL
"""
STANDS = "SELECT space_id, n_chunks FROM rag_store WHERE name = %s"
FILLED = """
SELECT count(*) FROM rag_chunk_vec v JOIN rag_reindexrun r ON r.target_id = v.space_id
GROUP BY r.id HAVING count(*) > 0
"""
IN_STORE = "JOIN rag_store s ON s.id = store_id WHERE s.name = %s"
COUNTED = f"SELECT count(*), sum(len) FROM rag_chunk_lex {IN_STORE}"
SAID = "SELECT n_chunks, sum_len FROM rag_store WHERE name = %s"
COUNTED_DF = f"""
SELECT key, count(*) FROM (SELECT unnest(rag_terms(w)) AS key FROM rag_chunk_lex {IN_STORE}) t
GROUP BY key ORDER BY key
"""
SAID_DF = f"SELECT key, df FROM rag_term_df {IN_STORE} AND df <> 0 ORDER BY key"


class Installation:
    """A fresh installation with a fast model and a server of its own."""

    def __init__(self, var: Path, openai_url: str) -> None:
        self.var = var
        self.environment = os.environ | {
            "CITABLE_VAR": str(var),
            "DATABASE_URL": "",
            "LOG_LEVEL": "ERROR",
            "RAG_EMBEDDING_MODEL": "use:multilingual-v3",
            "RAG_OPENAI_BASE_URL": openai_url,
            "WORKER_HEARTBEAT": "0.5",
            "WORKER_STALLED_AFTER": "2",
            "POSTGRES_OPTIONS": "shared_buffers=32MB",
        }
        self.commands = Commands(self.environment, is_warm=True)
        self.start = self.commands.start

    def run(self, *command: str) -> str:
        done = self.commands.run(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_postgres(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "project.db", "start"],
            cwd=BASE_DIR,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )

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
    with OpenAIServer() as model:
        made = Installation(folder, model.url)
        with made.commands:
            yield made
    postgres.stop_postgres(install_dir(), folder / "postgres")
    shutil.rmtree(folder)


def documents(folder: Path) -> Path:
    """Return a folder with what ships and some texts that take a while."""
    shutil.copytree(DOCUMENTS, folder)
    words = ["泵", "阀门", "温度", "记录", "pump", "valve", "leak", "daily", "report", "checks"]
    for n in range(6):
        dice = random.Random(n)
        lines = (
            f"## {n}.{line}\n\n"
            + " ".join(dice.choice(words) + str(dice.randrange(999)) for _ in range(60))
            for line in range(120)
        )
        (folder / f"long {n}.md").write_text("\n\n".join(lines), encoding="utf-8")
    return folder


class Watch(threading.Thread):
    """Looks at a store again and again: it must be whole at every moment."""

    def __init__(self, installation: Installation, expected: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.installation = installation
        self.expected = [(len(expected), sum(len(text) for *_, text in expected))]
        self.n_looks, self.wrong = 0, list[str]()
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(0.1):
            # A server that was killed is away for a moment.
            with contextlib.suppress(psycopg.OperationalError):
                if self.installation.rows(SUMMED, "Calm") != self.expected:
                    self.wrong.append("chunks")
                if self.installation.rows(UNPAIRED) != [(0,)]:
                    self.wrong.append("indexes")
                self.n_looks += 1


def test_kills_lose_nothing_and_double_nothing(installation: Installation, tmp_path: Path) -> None:
    print("seed", SEED)
    folder = str(documents(tmp_path / "documents"))
    installation.run("migrate", "-v", "0")
    installation.run("rag_ingest", folder, "--store", "Calm", "--create")
    expected = installation.rows(CHUNKS, "Calm")
    assert len(expected) > 600
    installation.run("rag_ingest", folder, "--store", "Stormy", "--create", "--no-wait")
    # What is served already is made anew under the storm, too.
    installation.run("rag_reindex", "--store", "Calm", "--fresh", "--no-wait")
    watch = Watch(installation, expected)
    watch.start()
    try:
        n_hit = storm(installation, random.Random(SEED))
    finally:
        watch.is_over.set()
        watch.join()
    print("hits", n_hit, "looks", watch.n_looks)
    assert n_hit >= N_KILLS // 2
    assert (watch.wrong, watch.n_looks > 5 * N_KILLS) == ([], True)
    installation.run("rag_ingest", folder, "--store", "Stormy")
    installation.run("rag_reindex", "--store", "Calm")
    assert installation.rows("SELECT DISTINCT status FROM rag_file") == [("completed",)]
    assert installation.rows(CHUNKS, "Stormy") == expected
    assert installation.rows(CHUNKS, "Calm") == expected
    assert installation.rows(UNPAIRED) == [(0,)]
    assert installation.rows("SELECT count(*) FROM rag_chunk_draft") == [(0,)]
    for name in ("Calm", "Stormy"):
        assert installation.rows(SAID, name) == installation.rows(COUNTED, name)
        assert installation.rows(SAID_DF, name) == installation.rows(COUNTED_DF, name)
    move_over_a_kill(installation)
    assert installation.rows(CHUNKS, "Calm") == expected


def move_over_a_kill(installation: Installation) -> None:
    """Kill Postgres while a store moves to another model, and let the move go on."""
    ((live, n),) = installation.rows(STANDS, "Calm")
    order = ("rag_reindex", "--store", "Calm", "--model", "openai_compatible:m", "--force")
    moving = installation.start(*order, "--per-second", "200")
    deadline = time.monotonic() + 60
    while not (filled := sum(n for (n,) in installation.rows(FILLED))):
        assert moving.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    installation.kill_postgres()
    assert moving.wait(30) != 0
    installation.start_postgres()
    assert installation.rows(STANDS, "Calm") == [(live, n)]
    assert 0 < filled < n
    installation.run("rag_reindex", "--store", "Calm", "--resume")
    ((now, _),) = installation.rows(STANDS, "Calm")
    assert now != live
    assert installation.rows(FILLED) == [(n,)]


def wait_for_work(installation: Installation, last: int) -> None:
    """Return when a worker that is newer than ``last`` is at work, or nothing is left to do."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ((is_at_work, n_left),) = installation.rows(
            "SELECT count(*) FILTER (WHERE status = 'doing' AND worker_id > %s) > 0, count(*)"
            " FROM procrastinate_jobs WHERE queue_name = 'index' AND status IN ('todo', 'doing')",
            last,
        )
        if is_at_work or not n_left:
            return
        time.sleep(0.05)


def storm(installation: Installation, dice: random.Random) -> int:
    """Kill again and again; return how often a job was at work."""
    n_hit = 0
    for n in range(N_KILLS):
        ((last,),) = installation.rows("SELECT coalesce(max(id), 0) FROM procrastinate_workers")
        worker = installation.start("procrastinate", "worker")
        # One in five dies while it starts; how long that takes depends on the machine.
        if n % 5:
            wait_for_work(installation, last)
        time.sleep(dice.uniform(0.0, 1.2))
        n_hit += bool(
            installation.rows(
                "SELECT FROM procrastinate_jobs WHERE queue_name = 'index' AND status = 'doing'"
            )
        )
        if n % 4 == 3:
            installation.kill_postgres()
        worker.kill()
        worker.wait()
        if n % 4 == 3:
            installation.start_postgres()
        if n % 6 == 5:
            installation.run("rag_reindex", "--store", "Calm", "--fresh", "--no-wait")
    return n_hit
