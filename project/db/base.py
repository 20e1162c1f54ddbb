"""Django database backend for PostgreSQL, in a file named as Django demands.

The embedded server is started when it is first needed, and again when it died; any server is asked
once a process whether its versions will do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base as postgresql
from psycopg_pool import ConnectionPool, PoolTimeout

from project.db.operations import DatabaseOperations
from project.postgres import server as postgres
from project.postgres.paths import install_dir, socket_dir
from project.postgres.tuning import tuned_options
from rag.core.errors import ConfigurationError
from rag.providers.postgres.db.requirements import check_server, missing_extension

logger = logging.getLogger(__name__)

_RECOVERY_S = 300
T = TypeVar("T")
_ready: set[str | None] = set()


def ensure_server(name: str | None = None, *, again: bool = False) -> str:
    """Start the server and create database ``name``, once a process; return its dsn.

    ``again`` looks anew whether it runs, after a connection has failed.
    """
    folder: Path | None = settings.POSTGRES_DATA_DIR
    dsn = ""
    if folder is not None and (again or name not in _ready):
        _link(settings.VAR_DIR, folder)
        options = tuned_options() | settings.POSTGRES_OPTIONS
        dsn = postgres.start_postgres(install_dir(), folder, options)
        if name:
            postgres.create_database(dsn, name)
        _ready.add(name)
    return dsn


def stop_server() -> None:
    """Stop the server of the settings, if there is one and it runs."""
    if settings.POSTGRES_DATA_DIR is not None:
        postgres.stop_postgres(install_dir(), settings.POSTGRES_DATA_DIR)
        _ready.clear()


def reconnecting(connect: Callable[[], T]) -> T:
    """Return ``connect()``; if it fails start the server and try again while that recovers."""
    try:
        return connect()
    except psycopg.OperationalError:
        ensure_server(again=True)
    deadline = time.monotonic() + _RECOVERY_S
    while True:
        try:
            return connect()
        except psycopg.OperationalError as error:
            if not postgres.is_starting(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


class ReconnectingConnection(psycopg.Connection[Any]):
    """A connection that starts the embedded server when nobody listens; for Django's pool."""

    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> Any:
        """Connect as psycopg does, but see ``reconnecting``."""
        return reconnecting(partial(super().connect, conninfo, **kwargs))


def _link(var_dir: Path, folder: Path) -> None:
    """Leave a link where the data was wanted, so that it is found again when modes change."""
    wanted = var_dir.resolve() / "postgres"
    if folder.resolve() == wanted.resolve() or wanted.exists():
        return
    wanted.parent.mkdir(parents=True, exist_ok=True)
    wanted.symlink_to(folder)
    logger.warning(
        "The database lives in %s: the account that runs PostgreSQL cannot enter %s.",
        folder,
        wanted.parent,
    )


class DatabaseWrapper(postgresql.DatabaseWrapper):
    """A connection to the embedded server of the settings or to the server of DATABASE_URL."""

    ops_class = DatabaseOperations

    def __init__(self, settings_dict: dict[str, Any], alias: str = "default") -> None:
        super().__init__(settings_dict, alias)
        folder = settings.POSTGRES_DATA_DIR
        self._is_embedded = folder is not None and settings_dict["HOST"] == str(socket_dir(folder))
        options = settings_dict["OPTIONS"]
        if isinstance(options.get("pool"), dict):
            pool = options["pool"] | _GIVING_UP
            if self._is_embedded:
                pool["connection_class"] = ReconnectingConnection
            settings_dict["OPTIONS"] = options | {"pool": pool}

    @property
    def pool(self) -> Any:
        """Return Django's pool; when one of its connections is dead, all that wait are renewed."""
        pool = super().pool
        if pool is not None and pool._check is ConnectionPool.check_connection:
            pool._check = partial(_check_or_renew, pool)
        return pool

    def get_connection_params(self) -> dict[str, Any]:
        """Return psycopg's arguments, with the embedded server started.

        The queue opens its own connections with these, so starting belongs here.
        """
        if self._is_embedded:
            ensure_server(self.settings_dict["NAME"])
        return super().get_connection_params()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection; a pool that had none to give says why the server refused it."""
        if self._is_embedded and not self.pool:
            return reconnecting(
                lambda: super(DatabaseWrapper, self).get_new_connection(conn_params)
            )
        is_first = self.pool and not self.pool.get_stats().get("connections_num")
        if is_first and not self._is_embedded:
            # The pool would hide a wrong address behind its timeout.
            psycopg.connect(**conn_params).close()
        try:
            return super().get_new_connection(conn_params)
        except PoolTimeout:
            # The pool tells only the log; these raise what the server or its starter says.
            if self._is_embedded:
                ensure_server(again=True)
            psycopg.connect(**conn_params).close()
            raise

    def check_database_version_supported(self) -> None:
        """Raise ConfigurationError unless this is PostgreSQL 15+ with pgvector 0.8+."""
        try:
            self._check_offer()
        except ConfigurationError:
            # Django would go on to use the connection that it has already stored.
            self.close()
            raise

    def _check_offer(self) -> None:
        with self.connection.cursor() as cursor:
            offer = check_server(cursor)
            if offer.installed or self.alias == NO_DB_ALIAS:
                return
            try:
                cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except psycopg.errors.InsufficientPrivilege:
                raise missing_extension(offer.database) from None


def _refuse_waiting(pool: Any) -> None:
    try:
        psycopg.connect(pool.conninfo, **pool.kwargs).close()
    except psycopg.OperationalError as error:
        # A server that says that it has no room: connections in use come back to those who wait.
        if "FATAL" in str(error):
            return
    else:
        return
    with pool._lock:
        refused = list(pool._waiting)
    for one in refused:
        one.fail(PoolTimeout("the server could not be reached"))


# A pool would try for 5 minutes, longer between two attempts each time: those who ask would hear of
# it after 10 s, and a server that is back would be found a minute late.
_GIVING_UP = {"reconnect_timeout": 1.5, "reconnect_failed": _refuse_waiting}


def _check_or_renew(pool: Any, connection: Any) -> None:
    # After a restart of the server all are dead. The pool would look at one after the other and
    # wait twice as long each time: four are more than its timeout.
    try:
        ConnectionPool.check_connection(connection)
    except psycopg.Error:
        pool.drain()
        raise
