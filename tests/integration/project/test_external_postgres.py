"""A server that is not ours, as DATABASE_URL names it: password, no superuser, TCP and socket.

The programs are those of the embedded server, started apart from it: by TCP with a password, TLS
off, and a database whose owner may not create extensions.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from project.postgres.account import ServerAccount, server_account, usable_install
from project.postgres.paths import install_dir
from tests.forked_commands import Commands

pytestmark = pytest.mark.slow

BASE_DIR = Path(__file__).resolve().parents[3]
DOCUMENTS = BASE_DIR / "rag" / "demo" / "documents"
# What a generated password may hold and an address must escape.
PASSWORD = "p@ss/w:rd%1 #?&"
SEARCH = """
from rag.core.access import Scope
from rag.services.search import retrieve
from rag.services.stores.lifecycle import find_stores
stores = find_stores(names=["books"], scope=Scope.operator())
for hit in retrieve(query={query!r}, scope=Scope.operator(), stores=stores).hits[:3]:
    print(hit.file_name, hit.vector.rank, hit.lexical.rank)
"""


class Server:
    """A cluster with password authentication for everybody, on a free port of the loopback."""

    def __init__(self, folder: Path) -> None:
        self.account: ServerAccount = server_account(folder)
        self.programs = usable_install(install_dir(), folder, self.account) / "bin"
        self.folder, self.data = folder, folder / "pgdata"
        self.secret = secrets.token_urlsafe(12)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    def start(self) -> None:
        password, log, sockets = self.folder / "password", self.folder / "log", self.folder / "sock"
        password.write_text(self.secret)
        log.touch()
        sockets.mkdir(mode=0o755)
        self.data.mkdir(mode=0o700)
        for path in (password, log, sockets, self.data):
            self.account.own(path)
        words = ["-U", "boss", "-A", "scram-sha-256", "--pwfile", password, "--no-sync"]
        made = self.account.run(
            self.programs / "initdb", "-D", self.data, *words, "--encoding=UTF8", "--locale=C.UTF-8"
        )
        assert made.returncode == 0, made.stderr
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": sockets,
            "ssl": "off",
            "fsync": "off",
            "shared_buffers": "32MB",
        }
        given = " ".join(f"-c {name}={value}" for name, value in options.items())
        control = (self.programs / "pg_ctl", "-D", self.data, "-l", log)
        started = self.account.run(*control, "-w", "-o", given, "start")
        assert started.returncode == 0, log.read_text()

    def stop(self) -> None:
        self.account.run(self.programs / "pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def boss(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="boss",
            password=self.secret,
            dbname=database,
            autocommit=True,
        )

    def tcp(self, database: str, password: str = PASSWORD, *, options: str = "") -> str:
        suffix = f"&options={quote(options)}" if options else ""
        place = f"127.0.0.1:{self.port}/{database}?sslmode=disable{suffix}"
        return f"postgres://plain_one:{quote(password, safe='')}@{place}"

    def socket(self, database: str) -> str:
        folder = quote(str(self.folder / "sock"), safe="")
        place = f"{database}?host={folder}&port={self.port}"
        return f"postgres://plain_one:{quote(PASSWORD, safe='')}@/{place}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="citable-external-", dir="/tmp"))
    folder.chmod(0o711)
    made = Server(folder)
    try:
        made.start()
        with made.boss() as boss:
            role = sql.SQL("CREATE ROLE plain_one LOGIN PASSWORD {}").format(sql.Literal(PASSWORD))
            boss.execute(role)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def new_database(server: Server, name: str, *, has_extension: bool = False) -> str:
    with server.boss() as boss:
        boss.execute(sql.SQL("CREATE DATABASE {} OWNER plain_one").format(sql.Identifier(name)))
    if has_extension:
        with server.boss(name) as inside:
            inside.execute("CREATE EXTENSION vector")
    return name


def commands(var: Path, url: str, *, is_warm: bool = False) -> Commands:
    given = {"CITABLE_VAR": str(var), "DATABASE_URL": url, "LOG_LEVEL": "ERROR"}
    model = {"RAG_EMBEDDING_MODEL": "use:multilingual-v3"}
    return Commands(os.environ | given | model, is_warm=is_warm)


def managed(manage: Commands, *command: str, stdin: str = "") -> str:
    done = manage.run(*command, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def test_a_file_in_and_a_cited_answer_out_by_tcp_and_by_socket(
    server: Server, tmp_path: Path
) -> None:
    name = new_database(server, "books", has_extension=True)
    question = "How long do you prime the line after alarm D2?"
    with (
        commands(tmp_path, server.tcp(name), is_warm=True) as tcp,
        commands(tmp_path, server.socket(name), is_warm=True) as local,
    ):
        managed(tcp, "migrate", "-v0")
        taken = managed(tcp, "rag_ingest", str(DOCUMENTS), "--store", "books", "--create")
        assert "10 files with " in taken
        assert "No migrations to apply" in managed(local, "migrate")
        again = managed(local, "rag_ingest", str(DOCUMENTS), "--store", "books")
        assert again.count("the same bytes are already there") == 10
        for manage in (tcp, local):
            found = managed(manage, "shell", "-v0", stdin=SEARCH.format(query=question))
            assert found.splitlines()[0].split() == ["dosing-training.pptx", "1", "1"]
            answer = managed(manage, "rag_ask", question, "--store", "books")
            assert "dosing-training.pptx" in answer
            assert "verified" in answer
    # Everything lies on that server: no other one was started.
    assert not (tmp_path / "postgres").exists()
    with server.boss(name) as boss:
        n_chunks, n_vectors, owner, is_super = boss.execute(
            "SELECT (SELECT count(*) FROM rag_chunk), (SELECT count(*) FROM rag_chunk_vec),"
            " (SELECT tableowner FROM pg_tables WHERE tablename = 'rag_chunk'), rolsuper"
            " FROM pg_roles WHERE rolname = 'plain_one'"
        ).fetchone() or (0, 0, "", True)
    assert n_chunks == n_vectors > 50
    assert (owner, is_super) == ("plain_one", False)


def test_a_role_that_may_not_create_the_extension_is_told_who_may_and_then_it_works(
    server: Server, tmp_path: Path
) -> None:
    name = new_database(server, "bare")
    with (
        commands(tmp_path, server.tcp(name)) as tcp,
        commands(tmp_path, server.socket(name)) as local,
    ):
        for manage in (tcp, local):
            told = sentence(manage.run("migrate"))
            assert "“bare” lacks the extension “vector”, and this role may not create it" in told
            assert "Have a superuser run CREATE EXTENSION vector" in told
        with server.boss(name) as boss:
            boss.execute("CREATE EXTENSION vector")
        assert "Applying rag.0002_index_tables... OK" in managed(tcp, "migrate")


@pytest.mark.parametrize(
    ("password", "database", "words"),
    [
        ("wrong", "postgres", 'password authentication failed for user "plain_one"'),
        (PASSWORD, "nowhere", 'database "nowhere" does not exist'),
    ],
)
def test_what_the_server_refuses_is_said_in_its_words(
    server: Server, tmp_path: Path, password: str, database: str, words: str
) -> None:
    with commands(tmp_path, server.tcp(database, password)) as manage:
        told = sentence(manage.run("migrate"))
    assert words in told
    assert told.endswith("Check DATABASE_URL and the server.")
    assert PASSWORD not in told


FAKES = {
    "old-server": (
        "CREATE FUNCTION fake.current_setting(text) RETURNS text LANGUAGE sql AS"
        " $$ SELECT CASE $1 WHEN 'server_version_num' THEN '140012'"
        " ELSE pg_catalog.current_setting($1) END $$",
        "PostgreSQL 14 is too old: version 15 or newer is needed.",
        "Point DATABASE_URL at a newer server",
    ),
    "no-pgvector": (
        "CREATE VIEW fake.pg_available_extensions AS SELECT * FROM"
        " pg_catalog.pg_available_extensions WHERE name <> 'vector'",
        "The PostgreSQL server has no pgvector: pgvector 0.8.0 or newer is needed.",
        "apt-get install postgresql-18-pgvector",
    ),
    "old-pgvector": (
        "CREATE VIEW fake.pg_available_extensions AS SELECT 'vector'::name AS name,"
        " '0.7.4' AS default_version, '0.7.4' AS installed_version",
        "The PostgreSQL server has only pgvector 0.7.4: pgvector 0.8.0 or newer is needed.",
        "Install it on the server",
    ),
    "old-extension": (
        "CREATE VIEW fake.pg_available_extensions AS SELECT 'vector'::name AS name,"
        " '0.8.6' AS default_version, '0.7.4' AS installed_version",
        "uses pgvector 0.7.4: version 0.8.0 or newer is needed.",
        "run ALTER EXTENSION vector UPDATE in the database.",
    ),
}


@pytest.fixture(scope="module")
def refused(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands on a database where a schema that comes and goes is asked first."""
    name = new_database(server, "refused", has_extension=True)
    url = server.tcp(name, options="-c search_path=fake,pg_catalog,public")
    with commands(tmp_path_factory.mktemp("refused"), url) as manage:
        yield manage


@pytest.mark.parametrize("case", FAKES)
def test_a_server_that_will_not_do_is_refused_before_anything_is_written(
    server: Server, refused: Commands, case: str
) -> None:
    """The server is asked in its own words; a schema in front answers for an older one."""
    fake, what, advice = FAKES[case]
    with server.boss("refused") as boss:
        boss.execute("DROP SCHEMA IF EXISTS fake CASCADE")
        boss.execute("CREATE SCHEMA fake")
        boss.execute(fake)
        boss.execute("GRANT USAGE ON SCHEMA fake TO PUBLIC")
        boss.execute("GRANT SELECT ON ALL TABLES IN SCHEMA fake TO PUBLIC")
        for command in ("migrate", "rag_ingest", "rag_ask"):
            rest = {
                "rag_ingest": [str(DOCUMENTS), "--store", "a"],
                "rag_ask": ["q", "--store", "a"],
            }
            told = sentence(refused.run(command, *rest.get(command, [])))
            assert told.startswith("Error: " if command == "migrate" else "CommandError: ")
            assert what in told
            assert advice in told
        tables = boss.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchone() == (0,)
