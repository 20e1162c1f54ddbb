"""Sync plan: the difference between an origin's documents and a store's files, by content hash."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rag.conf import conf
from rag.core.errors import RAGError
from rag.core.origins import Origin, OriginDocument
from rag.services.files.upload import PIECE, file_too_large


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that came from the origin: its id, its place there, its bytes and their version."""

    file_id: int
    path: str
    sha256: str
    size: int = 0
    mark: str = ""


@dataclass(slots=True)
class SyncPlan:
    """What a sync would do, by paths relative to the origin; ``unread`` are left as they are."""

    new: list[str] = field(default_factory=list)
    changed: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, KnownFile] = field(default_factory=dict)
    deleted: list[KnownFile] = field(default_factory=list)
    duplicates: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    n_same: int = 0

    @property
    def n_known(self) -> int:
        """Return how many files the store has from the origin."""
        return self.n_same + len(self.changed) + len(self.renamed) + len(self.deleted)


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
    for path in sorted(there, key=lambda p: (not _is_in_place(p, there, by_hash), p)):
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


def _is_in_place(path: str, there: Mapping[str, str], by_hash: Mapping[str, KnownFile]) -> bool:
    file = by_hash.get(there[path])
    return file is not None and file.path == path


@dataclass(slots=True)
class OriginScan:
    """Documents by their paths: as listed, with a digest that only equal bytes share, or why not.

    What is ``unread`` is there all the same. ``remarked`` are files, by id, whose bytes are known
    under another mark.
    """

    listed: dict[str, OriginDocument] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    remarked: dict[int, OriginDocument] = field(default_factory=dict)


def scan_origin(*, origin: Origin, known: list[KnownFile]) -> OriginScan:
    """Return what is there; ``known`` are the files that the store has from it.

    Raises NotFoundError when there is no such origin, and ProviderError when it cannot be told. One
    document that cannot be read, or is over the size limit, is told and stops no other.
    """
    scan = OriginScan({one.path: one for one in origin.listed()})
    at = {file.path: file for file in known}
    opened: list[OriginDocument] = []
    for path, one in scan.listed.items():
        old = at.get(path)
        if one.size > conf().max_file_bytes:
            scan.unread[path] = str(file_too_large(name=path))
        elif old is not None and one.mark and (one.mark, one.size) == (old.mark, old.size):
            scan.digests[path] = old.sha256
        else:
            opened.append(one)
    sizes = Counter(one.size for one in opened) + Counter({file.size for file in known})
    for one in opened:
        try:
            is_alone = sizes[one.size] == 1
            scan.digests[one.path] = f"only {one.path}" if is_alone else _hash(origin, one)
        except (RAGError, OSError) as error:
            scan.unread[one.path] = str(error)
            continue
        old = at.get(one.path)
        if old is not None and one.mark != old.mark and scan.digests[one.path] == old.sha256:
            scan.remarked[old.file_id] = one
    return scan


def _hash(origin: Origin, one: OriginDocument) -> str:
    digest = hashlib.sha256()
    with origin.opened(one.path) as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
