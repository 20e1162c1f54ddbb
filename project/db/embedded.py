"""Embedded PostgreSQL of the settings: started when needed, with our database created."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from django.conf import settings

from project.postgres import server as postgres
from project.postgres.paths import install_dir
from project.postgres.tuning import tuned_options

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
