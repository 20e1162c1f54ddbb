"""Backup and restore as docs/guides/operations.md has them, each into a server of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from project.postgres.account import server_account
from project.postgres.paths import PORT, USER, data_dir, install_dir, socket_dir
from project.postgres.server import create_database, start_postgres, stop_postgres

DATABASE = "citable"
# A mistake that is undone by a restore to the moment before it.
MISTAKE = "DELETE FROM agents_memory"
COUNT = "SELECT count(*) FROM agents_memory"


def _run(folder: Path, program: str, *words: str | Path) -> None:
    """Run a program of the server's as its account."""
    done = server_account(folder).run(install_dir() / "bin" / program, *words, timeout_s=600)
    if done.returncode:
        raise SystemExit(f"{program}: {done.stderr[-2000:]}")


def _url(folder: Path) -> str:
    return make_conninfo("", host=str(socket_dir(folder)), port=PORT, user=USER, dbname=DATABASE)


def _count(folder: Path) -> int:
    with psycopg.connect(_url(folder)) as connection:
        row = connection.execute(COUNT).fetchone()
    return int(row[0]) if row else 0


def _own_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    server_account(folder).own(folder)


@contextmanager
def restore_dump(var: Path, target: Path) -> Iterator[str]:
    """Yield the socket's folder of a server that has what ``pg_dump`` wrote of the one of ``var``."""
    source, other = data_dir(var), data_dir(target)
    start_postgres(install_dir(), source, {})
    _own_folder(source / "backup")
    dump = source / "backup" / "citable.pgdump"
    _run(source, "pg_dump", "--format=custom", f"--file={dump}", _url(source))
    dsn = start_postgres(install_dir(), other, {})
    try:
        create_database(dsn, DATABASE)
        moved = other / "citable.pgdump"
        shutil.copy(dump, moved)
        server_account(other).own(moved)
        _run(other, "pg_restore", "--no-owner", "--exit-on-error", "-d", _url(other), moved)
        yield str(socket_dir(other))
    finally:
        stop_postgres(install_dir(), other)


@contextmanager
def restore_point_in_time(var: Path, target: Path) -> Iterator[str]:
    """Yield the socket's folder of a server as the one of ``var`` was the moment before a mistake."""
    source, other = data_dir(var), data_dir(target)
    archive, base = source / "archive", source / "base"
    for folder in (archive, base):
        _own_folder(folder)
    stop_postgres(install_dir(), source)
    command = f"test ! -f {archive}/%f && cp %p {archive}/%f"
    start_postgres(install_dir(), source, {"archive_mode": "on", "archive_command": command})
    server = make_conninfo("", host=str(socket_dir(source)), port=PORT, user=USER)
    _run(source, "pg_basebackup", "-d", server, "-D", base, "-X", "stream", "-c", "fast")
    before = _count(source)
    moment, segment = _mistake(source)
    if not before or _count(source):
        raise SystemExit("there was nothing to lose, or it was not lost")
    _wait_for_archive(archive, segment)
    cluster = other / "pgdata"
    other.mkdir(parents=True)
    shutil.copytree(base, cluster)
    with (cluster / "postgresql.auto.conf").open("a", encoding="utf-8") as conf:
        conf.write(f"restore_command = 'cp {archive}/%f %p'\n")
        conf.write(f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\n")
    (cluster / "recovery.signal").touch()
    server_account(source).own(other)
    cluster.chmod(0o700)
    try:
        start_postgres(install_dir(), other, {})
        if _count(other) != before:
            raise SystemExit(f"{_count(other)} of {before} rows came back")
        yield str(socket_dir(other))
    finally:
        stop_postgres(install_dir(), other)


def _mistake(folder: Path) -> tuple[str, str]:
    """Make the mistake; return the moment before it, and the WAL segment that it lies in."""
    with psycopg.connect(_url(folder), autocommit=True) as connection:
        moment = connection.execute("SELECT clock_timestamp()::text").fetchone()
        time.sleep(1)
        connection.execute(MISTAKE)
        segment = connection.execute("SELECT pg_walfile_name(pg_current_wal_lsn())").fetchone()
        connection.execute("SELECT pg_switch_wal()")
    if moment is None or segment is None:
        raise SystemExit("the server does not say where it is")
    return str(moment[0]), str(segment[0])


def _wait_for_archive(archive: Path, segment: str) -> None:
    """Return when a WAL segment is archived."""
    for _ in range(240):
        if (archive / segment).exists():
            return
        time.sleep(0.5)
    raise SystemExit(f"{segment} was not archived within two minutes")
