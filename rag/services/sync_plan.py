"""What differs between a folder and what a store took from it. In: both. Out: a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rag.core.errors import NotFoundError

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that came from the folder: its id, its place there and its bytes' hash."""

    file_id: int
    path: str
    sha256: str


@dataclass(slots=True)
class SyncPlan:
    """What a sync would do, by paths relative to the folder."""

    new: list[str] = field(default_factory=list)
    changed: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, KnownFile] = field(default_factory=dict)
    deleted: list[KnownFile] = field(default_factory=list)
    duplicates: dict[str, str] = field(default_factory=dict)
    n_same: int = 0

    @property
    def n_known(self) -> int:
        """Return how many files the store has from the folder."""
        return self.n_same + len(self.changed) + len(self.renamed) + len(self.deleted)


def scan_folder(*, folder: Path) -> dict[str, str]:
    """Return each file's relative path with its hash; hidden ones and links are passed over.

    Raises NotFoundError when there is no such folder.
    """
    if not folder.is_dir():
        raise NotFoundError("There is no folder “{path}”.", path=folder)
    return {path.relative_to(folder).as_posix(): _hash(path) for path in _files(folder)}


def plan_sync(*, there: Mapping[str, str], known: list[KnownFile]) -> SyncPlan:
    """Return what brings the known files to what is there.

    Bytes decide first: a file whose bytes are found elsewhere was renamed, whatever stands at its
    old place now. Equal bytes twice are one file.
    """
    plan = SyncPlan()
    by_hash = {file.sha256: file for file in known}
    by_path = {file.path: file for file in known}
    claimed: dict[str, str] = {}
    rest: list[str] = []
    # A file that is still at its place is that file, also where a copy comes before it.
    for path in sorted(there, key=lambda p: (not _is_at_home(p, there, by_hash), p)):
        digest = there[path]
        if digest in claimed:
            plan.duplicates[path] = claimed[digest]
        elif (file := by_hash.get(digest)) is None:
            rest.append(path)
            claimed[digest] = path
        else:
            claimed[digest] = path
            if file.path == path:
                plan.n_same += 1
            else:
                plan.renamed[path] = file
    kept = {by_hash[digest].file_id for digest in claimed if digest in by_hash}
    for path in rest:
        old = by_path.get(path)
        if old is not None and old.file_id not in kept:
            plan.changed[path] = old.file_id
        else:
            plan.new.append(path)
    gone = set(plan.changed.values()) | kept
    plan.deleted = [file for file in known if file.file_id not in gone]
    return plan


def _is_at_home(path: str, there: Mapping[str, str], by_hash: Mapping[str, KnownFile]) -> bool:
    file = by_hash.get(there[path])
    return file is not None and file.path == path


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
