"""``postmaster.pid``: whether the process that a leftover file names still is this cluster's."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

PidState = Literal["none", "gone", "zombie", "foreign", "live"]


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
