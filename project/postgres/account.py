"""Operating-system account of the embedded server, and commands run as it.

PostgreSQL refuses to run as the superuser, so a superuser's commands run as a lesser account.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rag.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """Who runs the server; ``uid`` and ``gid`` are None when it is the caller itself."""

    uid: int | None = None
    gid: int | None = None

    def run(
        self,
        *command: str | Path,
        timeout_s: float = 180,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` as this account in ``/``; raise ConfigurationError if it cannot start.

        Of this process's environment it gets PATH alone, and what ``environment`` adds.
        """
        words = [str(word) for word in command]
        try:
            return subprocess.run(
                words,
                cwd="/",
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "LC_ALL": "C",
                    **(environment or {}),
                },
                user=self.uid,
                group=self.gid,
                extra_groups=None if self.uid is None else [],
                umask=0o077,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigurationError(
                "“{command}” did not end within {timeout_s:g} s.",
                hint="Look for a full disk or an overloaded machine, then try again.",
                command=words[0],
                timeout_s=timeout_s,
            ) from error
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigurationError(
                "“{command}” cannot be run: {reason}.", command=words[0], reason=error
            ) from error

    def own(self, path: Path) -> None:
        """Make this account the owner of ``path`` and of everything below it."""
        if self.uid is None or self.gid is None:
            return
        os.chown(path, self.uid, self.gid, follow_symlinks=False)
        if path.is_dir() and not path.is_symlink():
            for entry in path.iterdir():
                self.own(entry)

    def owns(self, path: Path) -> bool:
        """Say whether ``path`` is a real folder of this account that nobody else may enter."""
        status = path.lstat()
        uid = os.geteuid() if self.uid is None else self.uid
        return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & 0o077

    def reaches(self, folder: Path) -> bool:
        """Say whether this account may enter ``folder``; of a missing one, its nearest parent."""
        if self.uid is None:
            return True
        existing = [path for path in (folder, *folder.parents) if path.exists()]
        return all(self._may_search(path) for path in existing)

    def _may_search(self, path: Path) -> bool:
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def server_account(data_dir: Path) -> ServerAccount:
    """Return the caller; for the superuser the cluster's owner, else postgres or nobody."""
    if os.geteuid() != 0:
        return ServerAccount()
    cluster = data_dir / "pgdata"
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return ServerAccount(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerAccount(found.pw_uid, found.pw_gid)
    raise ConfigurationError(
        "PostgreSQL does not run as the superuser, and there is no account “postgres” or “nobody”.",
        hint="Run this command as an ordinary user, or set DATABASE_URL.",
    )


def usable_install(install_dir: Path, data_dir: Path, account: ServerAccount) -> Path:
    """Return ``install_dir``, or a copy beside the data if ``account`` cannot run it from there.

    The package is copied with its sibling ``<package>.libs``: programs find their libraries by a
    relative path.
    """
    if account.uid is None or _executes(install_dir, account):
        return install_dir
    status = (install_dir / "bin" / "postgres").stat()
    copy = data_dir / f"install-{status.st_mtime_ns:x}-{status.st_size:x}"
    package = install_dir.parent
    if not copy.exists():
        for stale in data_dir.glob("install-*"):
            shutil.rmtree(stale)
        fresh = data_dir / f"{copy.name}.new"
        fresh.mkdir(mode=0o755)
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.exists():
                ignored = shutil.ignore_patterns("__pycache__", "include")
                shutil.copytree(folder, fresh / folder.name, symlinks=True, ignore=ignored)
        _open_to_all(fresh)
        fresh.rename(copy)
    copied = copy / package.name / install_dir.name
    if not _executes(copied, account):
        raise ConfigurationError(
            "The account that runs PostgreSQL cannot execute {program}.",
            hint="Set CITABLE_VAR to a folder on a file system that allows programs to be run.",
            program=copied / "bin" / "postgres",
        )
    return copied


def _executes(install_dir: Path, account: ServerAccount) -> bool:
    try:
        return account.run(install_dir / "bin" / "postgres", "--version").returncode == 0
    except ConfigurationError:
        return False


def _open_to_all(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & stat.S_IXUSR else 0o644)
