"""Sync: a store's files follow an origin (folder or S3 prefix): add, replace, rename, delete.

The plan is the difference by content hash. One that would delete more than a quarter of the files
is refused unless it is forced.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError, NotFoundError, RAGError
from rag.core.origins import Origin, OriginDocument
from rag.providers.origins.folder import FolderOrigin
from rag.providers.origins.s3 import S3Origin
from rag.providers.postgres.db.connections import release_db
from rag.services.files.delete import delete_files
from rag.services.files.edit import update_file
from rag.services.files.replace import replace_file
from rag.services.files.upload import file_too_large, upload_file


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

    @property
    def deletes_too_much(self) -> bool:
        """Return whether more would go than goes by intention: a quarter, and all or many."""
        n_gone = len(self.deleted)
        return n_gone > MAX_DELETED * self.n_known and (n_gone > FEW or n_gone == self.n_known)


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
    with origin.opened(one.path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


# More than this share of the known files is not deleted by mistake.
MAX_DELETED, FEW = 0.25, 5
_KNOWN = ("pk", "metadata__path", "sha256", "size", "metadata__mark")


@dataclass(frozen=True, slots=True)
class SyncActions:
    """What may be done to the files that a store has from an origin, under a label.

    Each raises RAGError or OSError and has done nothing then.
    """

    scope: Scope
    store: models.Store
    origin: Origin
    label: str

    def add(self, one: OriginDocument) -> int:
        """File a new document; raise ConflictError when the store has its bytes from elsewhere."""
        release_db()
        with self.origin.opened(one.path) as content:
            uploaded = upload_file(
                store=self.store,
                name=PurePosixPath(one.path).name,
                content=content,
                metadata=self._with_origin({}, one),
            )
        if uploaded.is_new:
            return uploaded.file.pk
        raise ConflictError(
            "The store has these bytes already, as “{name}”.", name=uploaded.file.name
        )

    def replace(self, file_id: int, one: OriginDocument) -> int:
        """Give a file the bytes that are at its place now."""
        file = _file(file_id)
        changes = {"metadata": self._with_origin(file.metadata, one)}
        release_db()
        with self.origin.opened(one.path) as content:
            replace_file(scope=self.scope, file=file, content=content, changes=changes)
        return file_id

    def rename(self, known: KnownFile, one: OriginDocument) -> None:
        """Let a file be at another place; its chunks stay."""
        file = _file(known.file_id)
        update_file(
            scope=self.scope,
            file=file,
            name=PurePosixPath(one.path).name,
            content_type=file.content_type,
            metadata=self._with_origin(file.metadata, one),
        )

    def mark(self, file_id: int, one: OriginDocument) -> None:
        """Keep the version under which a file's bytes are known now, so they are not read again."""
        rows = models.File.objects.filter(pk=file_id)
        for metadata in rows.values_list("metadata", flat=True):
            rows.update(metadata=self._with_origin(metadata, one))

    def delete(self, known: KnownFile) -> None:
        """Delete a file that is no longer there."""
        delete_files(scope=self.scope, file_ids=[known.file_id])

    def _with_origin(self, metadata: dict[str, Any], one: OriginDocument) -> dict[str, Any]:
        rest = {name: value for name, value in metadata.items() if name != "mark"}
        mark = {"mark": one.mark} if one.mark else {}
        return {**rest, "sync": self.label, "path": one.path, **mark}


def _file(file_id: int) -> models.File:
    file = models.File.objects.light().select_related("store").filter(pk=file_id).first()
    if file is None:
        raise NotFoundError("The file was deleted meanwhile.")
    return file


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did: the plan, the files whose jobs wait, and what could not be done."""

    plan: SyncPlan
    queued: tuple[int, ...]
    failed: tuple[str, ...]


def preview_sync(*, store: models.Store, origin: Origin, label: str) -> SyncPlan:
    """Return what a sync would do; nothing is changed."""
    return _scan_and_plan(store, origin, label)[0]


def sync_files(
    *,
    scope: Scope,
    store: models.Store,
    origin: Origin,
    label: str,
    is_forced: bool = False,
    on_step: Callable[[str], None] = lambda what: None,
) -> SyncResult:
    """Bring the store's files of this label to what the origin holds.

    Raises ConflictError, before anything is done, when more than a quarter of them would be
    deleted, unless ``is_forced``, and what ``scan_origin`` raises. A file that fails is told and
    does not stop the others.
    """
    plan, scan = _scan_and_plan(store, origin, label)
    if plan.deletes_too_much and not is_forced:
        raise ConflictError(
            "{n} of {known} files are missing from “{folder}” and would be deleted.",
            hint="Look whether the folder is whole; sync by force if that is meant.",
            n=len(plan.deleted),
            known=plan.n_known,
            folder=origin,
        )
    queued: list[int] = []
    failed = [f"{path}: {reason}" for path, reason in plan.unread.items()]
    actions, at = SyncActions(scope, store, origin, label), scan.listed

    def attempt(what: str, path: str, action: Callable[[], int | None]) -> None:
        try:
            file_id = action()
        except (RAGError, OSError) as error:
            failed.append(f"{path}: {error}")
            return
        on_step(f"{what}: {path}")
        if file_id is not None:
            queued.append(file_id)

    # Renames first: a new file may have the name that an old one leaves.
    for path, known in plan.renamed.items():
        attempt("renamed", f"{known.path} → {path}", partial(actions.rename, known, at[path]))
    for known in plan.deleted:
        attempt("deleted", known.path, partial(actions.delete, known))
    for path, file_id in plan.changed.items():
        attempt("changed", path, partial(actions.replace, file_id, at[path]))
    for path in plan.new:
        attempt("new", path, partial(actions.add, at[path]))
    for file_id, one in scan.remarked.items():
        actions.mark(file_id, one)
    return SyncResult(plan, tuple(queued), tuple(failed))


def _scan_and_plan(store: models.Store, origin: Origin, label: str) -> tuple[SyncPlan, OriginScan]:
    rows = store.files.filter(metadata__sync=label).values_list(*_KNOWN)
    known = [KnownFile(pk, str(path), sha, size, mark or "") for pk, path, sha, size, mark in rows]
    release_db()
    scan = scan_origin(origin=origin, known=known)
    # What is there and cannot be read is neither changed nor gone.
    known = [one for one in known if one.path not in scan.unread]
    plan = plan_sync(there=scan.digests, known=known)
    plan.unread = scan.unread
    return plan, scan


def open_origin(*, address: str) -> Origin:
    """Return the folder, or the prefix of an object store if ``address`` is ``s3://bucket/prefix``.

    Raises InvalidInputError for an unusable address, ConfigurationError without keys or package.
    """
    if "://" in address:
        return S3Origin(address)
    if not address.strip():
        raise InvalidInputError("No folder was named.", hint="Name a folder or s3://bucket/prefix.")
    return FolderOrigin(Path(address))
