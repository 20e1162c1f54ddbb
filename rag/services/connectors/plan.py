"""Sync plan: what brings the files of a store to the documents of an origin, by their hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rag.core.connectors import KnownDocument
from rag.core.errors import RAGError

# More than this share of the known files is not deleted by mistake.
MAX_DELETED, FEW = 0.25, 5


@dataclass(slots=True)
class SyncPlan:
    """What a sync would do, by paths relative to the origin; ``unread`` are left as they are."""

    new: list[str] = field(default_factory=list)
    changed: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, KnownDocument] = field(default_factory=dict)
    deleted: list[KnownDocument] = field(default_factory=list)
    duplicates: dict[str, str] = field(default_factory=dict)
    unread: dict[str, RAGError | OSError] = field(default_factory=dict)
    n_same: int = 0

    @property
    def n_known(self) -> int:
        """Return how many files the store has from the origin."""
        return self.n_same + len(self.changed) + len(self.renamed) + len(self.deleted)

    @property
    def deletes_too_much(self) -> bool:
        """Return whether more would go than goes by intention: a quarter, and all or many."""
        n_gone = len(self.deleted)
        return n_gone > MAX_DELETED * self.n_known and (n_gone > FEW or n_gone == self.n_known)


def plan_sync(*, there: Mapping[str, str], known: list[KnownDocument]) -> SyncPlan:
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
    in_place = {path for path, one in there.items() if one in by_hash and by_hash[one].path == path}
    for path in sorted(there, key=lambda path: (path not in in_place, path)):
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
