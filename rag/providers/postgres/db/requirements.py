"""Database requirements: the versions of PostgreSQL and pgvector that we need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rag.core.errors import ConfigurationError

MIN_POSTGRES = 15
MIN_PGVECTOR = "0.8.0"


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """A server's versions: of PostgreSQL, of pgvector in this database, and of pgvector on disk."""

    server: int
    installed: str | None
    available: str | None
    database: str = ""


_OFFER = """
SELECT current_setting('server_version_num')::int / 10000, installed_version, default_version,
       current_database()
  FROM (SELECT 1) one LEFT JOIN pg_available_extensions ON name = 'vector'
"""


def check_server(cursor: Any) -> ServerVersions:
    """Return what a server offers; raise ConfigurationError unless it will do."""
    cursor.execute(_OFFER)
    offer = ServerVersions(*cursor.fetchone())
    check_server_versions(offer)
    return offer


def check_server_versions(offer: ServerVersions) -> None:
    """Raise ConfigurationError, naming the version and the way to it, unless ``offer`` will do."""
    if offer.server < MIN_POSTGRES:
        raise ConfigurationError(
            "PostgreSQL {found} is too old: version {needed} or newer is needed.",
            hint="Point DATABASE_URL at a newer server, or unset it to use the embedded one.",
            found=offer.server,
            needed=MIN_POSTGRES,
        )
    if _is_enough(offer.installed):
        return
    if offer.installed and _is_enough(offer.available):
        raise ConfigurationError(
            "Database “{database}” uses pgvector {found}: version {needed} or newer is needed.",
            hint="The server has {available}: run ALTER EXTENSION vector UPDATE in the database.",
            database=offer.database,
            found=offer.installed,
            needed=MIN_PGVECTOR,
            available=offer.available,
        )
    if not _is_enough(offer.available):
        raise ConfigurationError(
            "The PostgreSQL server has {found}: pgvector {needed} or newer is needed.",
            hint="Install it on the server (Debian and Ubuntu with the apt.postgresql.org archive: "
            "apt-get install postgresql-{server}-pgvector; Docker: pgvector/pgvector:pg{server}; "
            "source: github.com/pgvector/pgvector), or unset DATABASE_URL to use the embedded one.",
            found=f"only pgvector {offer.available}" if offer.available else "no pgvector",
            needed=MIN_PGVECTOR,
            server=offer.server,
        )


def missing_extension(database: str) -> ConfigurationError:
    """Return the error for a role that may not create the extension itself."""
    return ConfigurationError(
        "Database “{database}” lacks the extension “vector”, and this role may not create it.",
        hint="Have a superuser run CREATE EXTENSION vector in the database, then try again.",
        database=database,
    )


def _is_enough(version: str | None) -> bool:
    return version is not None and _numbers(version) >= _numbers(MIN_PGVECTOR)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
