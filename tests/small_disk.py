"""Full disk: a folder where writing really fails until space is freed.

It is a small file system in memory where one may be mounted; elsewhere the kernel's limit on the
size of files stands in for it: writing fails in the same calls, for another reason.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = 1 << 20


class SmallDisk:
    """``path`` is a folder of it; ``fill`` leaves no byte, ``free`` makes room again."""

    def __init__(self, path: Path, is_mounted: bool) -> None:
        self.path, self.is_mounted = path, is_mounted
        self._ballast = path / ".ballast"
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        if not self.is_mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._limits[1]))
            return
        with self._ballast.open("wb", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                return

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        self._ballast.unlink(missing_ok=True)

    def files(self) -> list[str]:
        """Return what lies there, the ballast apart."""
        return sorted(
            str(one.relative_to(self.path))
            for one in self.path.rglob("*")
            if one.is_file() and one != self._ballast
        )


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """Lend a disk of a megabyte at ``path``, full already."""
    path.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "tmpfs", str(path)]
    may_mount = os.geteuid() == 0 and shutil.which("mount") is not None
    is_mounted = may_mount and subprocess.run(mounting, capture_output=True).returncode == 0
    disk = SmallDisk(path, is_mounted)
    try:
        disk.fill()
        yield disk
    finally:
        disk.free()
        if is_mounted:
            subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True)
