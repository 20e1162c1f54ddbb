"""The database backend: it starts and revives the embedded server and judges any other."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from django.conf import settings
from psycopg.conninfo import make_conninfo

from project.db.base import ensure_server
from project.postgres import server as postgres
from project.postgres.paths import PORT, USER, install_dir
from tests.forked_processes import run_python

pytestmark = pytest.mark.slow

PRELUDE = """
import os, signal, threading, time
from pathlib import Path
from django.conf import settings
from django.db import connection, connections
settings.DATABASES["default"]["OPTIONS"]["pool"] = POOL
def ask(query):
    with connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    connection.close()
    return row[0]
def kill():
    file = settings.POSTGRES_DATA_DIR / "pgdata" / "postmaster.pid"
    os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
    time.sleep(1)
"""
POOLED = {"min_size": 0, "max_size": 2, "timeout": 20}


@pytest.fixture
def var() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="citable-backend-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    postgres.stop_postgres(install_dir(), folder / "postgres")
    shutil.rmtree(folder)


def run(var: Path, script: str, pool: object = POOLED, **env: str) -> str:
    """Run a script that uses Django's connection, in a process and with a server of its own."""
    code = PRELUDE.replace("POOL", repr(pool), 1) + script
    fast = {"POSTGRES_OPTIONS": "fsync=off,shared_buffers=16MB", "DATABASE_URL": ""}
    base = {"CITABLE_VAR": str(var), "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = run_python("-c", code, env=os.environ | base | fast | env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("pool", [POOLED, False])
def test_the_first_query_starts_the_server_with_our_database(var: Path, pool: object) -> None:
    script = "print(ask(\"SELECT current_database() || ' ' || '[1,2]'::vector::text\"))"
    assert run(var, script, pool) == "citable [1,2]"


@pytest.mark.parametrize("pool", [POOLED, False])
def test_a_killed_server_is_started_again_by_the_next_query(var: Path, pool: object) -> None:
    script = """
print(ask("SELECT 1"))
for n in (2, 3):
    kill()
    print(ask(f"SELECT {n}"))
"""
    assert run(var, script, pool).split() == ["1", "2", "3"]


def test_many_threads_find_the_killed_server_alive(var: Path) -> None:
    script = """
ask("SELECT 1")
kill()
answers = []
threads = [threading.Thread(target=lambda: answers.append(ask("SELECT 7"))) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(answers)
"""
    assert run(var, script) == str([7] * 8)


def test_sessions_ended_by_the_server_do_not_reach_the_caller(var: Path) -> None:
    script = """
import psycopg
mine = ask("SELECT pg_backend_pid()")
other = psycopg.connect(**connection.get_connection_params())
other.execute(f"SELECT pg_terminate_backend({mine})")
print(ask("SELECT 5"))
"""
    assert run(var, script) == "5"


def test_the_queue_s_own_connections_start_the_server_too(var: Path) -> None:
    script = """
import psycopg
from procrastinate.contrib.django.utils import connector_params
print(psycopg.connect(**connector_params()).execute("SELECT 9").fetchone()[0])
"""
    assert run(var, script) == "9"


def test_a_server_of_the_superuser_out_of_a_private_folder_is_linked(var: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs the superuser")
    home, shared = var / "home", var / "shared"
    home.mkdir(mode=0o700)
    shared.mkdir(mode=0o711)
    script = """
print(ask("SHOW data_directory"), (settings.VAR_DIR / "postgres").resolve())
"""
    patch = f"from project.postgres import paths as p; p._SHARED_ROOT = p.Path({str(shared)!r})\n"
    code = patch + PRELUDE.replace("POOL", repr(POOLED), 1) + script
    env = {"CITABLE_VAR": str(home), "DJANGO_SETTINGS_MODULE": "project.settings"}
    try:
        for _ in range(2):
            done = run_python("-c", code, env=os.environ | env | {"DATABASE_URL": ""})
            assert done.returncode == 0, done.stderr
            data, linked = done.stdout.split()
            assert Path(data).parent == Path(linked)
            assert Path(linked).parent == shared
            # Once the link exists it decides, whatever the folders' modes become.
            home.chmod(0o711)
    finally:
        postgres.stop_postgres(install_dir(), (home / "postgres").resolve())


@pytest.fixture
def admin() -> Iterator[psycopg.Connection]:
    """A superuser's connection to this run's server, with a database without pgvector."""
    if settings.POSTGRES_DATA_DIR is None:
        pytest.skip("needs the embedded server")
    ensure_server(again=True)
    host = settings.DATABASES["default"]["HOST"]
    dsn = make_conninfo("", host=host, port=PORT, user=USER, dbname="postgres")
    with psycopg.connect(dsn, autocommit=True) as connection:
        drop(connection)
        connection.execute("CREATE ROLE plain_role LOGIN")
        connection.execute("CREATE DATABASE plain_base OWNER plain_role")
        yield connection
        drop(connection)


def drop(connection: psycopg.Connection) -> None:
    connection.execute("DROP DATABASE IF EXISTS plain_base WITH (FORCE)")
    connection.execute("DROP ROLE IF EXISTS plain_role")


def url(user: str, options: str = "") -> str:
    host = quote(settings.DATABASES["default"]["HOST"], safe="")
    suffix = f"&options={quote(options)}" if options else ""
    return f"postgres://{user}@/plain_base?host={host}&port={PORT}{suffix}"


def migrate(database_url: str) -> subprocess.CompletedProcess[str]:
    env = {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "project.settings"}
    return run_python("manage.py", "migrate", "contenttypes", env=os.environ | env)


def test_migrate_creates_the_extension_where_it_may(admin: psycopg.Connection) -> None:
    admin.execute("ALTER ROLE plain_role SUPERUSER")
    done = migrate(url("plain_role"))
    assert done.returncode == 0, done.stderr


def test_migrate_on_a_server_that_is_not_there_is_one_sentence() -> None:
    done = migrate("postgres://a:b@127.0.0.1:1/none")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("Error: The database does not answer")
    assert "Traceback" not in done.stderr


def test_an_unreachable_server_is_named_although_the_pool_hides_it(tmp_path: Path) -> None:
    script = """
from django.db import OperationalError
try:
    ask("SELECT 1")
except OperationalError as error:
    print(error)
"""
    pool = POOLED | {"timeout": 1}
    output = run(tmp_path, script, pool, DATABASE_URL="postgres://a:b@127.0.0.1:1/none")
    assert "port 1 failed: Connection refused" in output
