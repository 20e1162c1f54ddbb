"""Upgrade test: ``python -m tests.upgrades.upgrade [--commit C]``, ``make upgrade-test``.

The release is taken out of the history into a folder of its own, makes and fills a database by its
own code, and the present code migrates it and walks every path. Then the database is backed up by
docs/guides/operations.md, restored into another server and walked again; and once more from a base
backup and its WAL, to a point in time before a store was deleted.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.upgrades.restore import restore_dump, restore_point_in_time

BASE_DIR = Path(__file__).resolve().parents[2]
# No release is tagged; this is the last state of the first day, the oldest with today's addresses.
OLDEST = "9cdd08b"
# The code of the folder that it runs in counts, not what lies beside the script.
_RUN = """
import django, runpy, sys
django.setup()
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def export(commit: str, target: Path) -> None:
    """Write the tree of a commit into a folder."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=BASE_DIR, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")


def run_script(name: str, tree: Path, var: Path, sockets: str = "") -> str:
    """Return what a script beside this one printed, run by the code in ``tree``."""
    script = Path(__file__).with_name(f"{name}.py")
    env = {**os.environ, "CITABLE_VAR": str(var), "DJANGO_SETTINGS_MODULE": "project.settings"}
    # A URL cannot name a folder of sockets; the client's own variable can.
    env |= {"DATABASE_URL": "postgres://app@/citable", "PGHOST": sockets} if sockets else {}
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(script)], cwd=tree, env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{name} in {tree}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def stop_server(var: Path) -> None:
    """Stop the embedded server of an installation."""
    subprocess.run(
        [sys.executable, "-m", "project.db", "stop"],
        cwd=BASE_DIR,
        env={**os.environ, "CITABLE_VAR": str(var)},
        check=True,
        capture_output=True,
    )


def main() -> None:
    """Do all of it; what fails ends it with its output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", default=OLDEST, help="the release to upgrade from")
    commit = parser.parse_args().commit
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        # The embedded server's account must reach its own folder.
        root.chmod(0o711)
        tree, var = root / "release", root / "var"
        for one in (tree, var):
            one.mkdir()
        export(commit, tree)
        try:
            run_script("fill_release", tree, var)
            sys.stdout.write(f"filled by {commit}\n")
            sys.stdout.write(f"migrated: {run_script('walk_release', BASE_DIR, var)}")
            with restore_dump(var, root / "restored") as sockets:
                sys.stdout.write(f"restored: {run_script('walk_release', BASE_DIR, var, sockets)}")
            with restore_point_in_time(var, root / "pitr") as sockets:
                sys.stdout.write(f"in time: {run_script('walk_release', BASE_DIR, var, sockets)}")
        finally:
            stop_server(var)


if __name__ == "__main__":
    main()
