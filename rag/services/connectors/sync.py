"""Sync: a store's files follow an origin: add, replace, rename, restrict, delete.

The plan is the difference by content hash. One that would delete more than a quarter of the files
is refused unless it is forced; after a list that is not whole nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.contrib.auth.models import Group

from rag import models
from rag.core.access import Scope
from rag.core.connectors import Connector, KnownDocument, OriginDocument
from rag.core.errors import ConflictError, NotFoundError, ProviderTimeoutError, RAGError
from rag.providers.postgres.db.connections import release_db
from rag.services.connectors.context import SyncContext
from rag.services.connectors.plan import SyncPlan, plan_sync
from rag.services.connectors.scan import OriginScan, scan_origin
from rag.services.files import (
    FileAttributes,
    clean_path,
    create_file,
    delete_files,
    replace_file,
    requeue_files,
    update_file,
)

_KNOWN = (
    "pk",
    "metadata__path",
    "sha256",
    "size",
    "metadata__mark",
    "metadata__url",
    "metadata__groups",
)
_OWN = ("sync", "path", "mark", "url", "groups")


def known_documents(*, store: models.Store, label: str) -> dict[str, KnownDocument]:
    """Return the files that the store has from an origin, under a label, by their places there."""
    rows = store.files.filter(metadata__sync=label).values_list(*_KNOWN)
    return {
        str(path): KnownDocument(
            pk,
            str(path),
            sha,
            size,
            mark or "",
            url or "",
            None if groups is None else tuple(groups),
        )
        for pk, path, sha, size, mark, url, groups in rows
    }


@dataclass(frozen=True, slots=True)
class SyncActions:
    """What may be done to the files that a store has from an origin, under a label.

    Each raises RAGError or OSError and has done nothing then.
    """

    store: models.Store
    connector: Connector
    context: SyncContext
    label: str

    def add(self, one: OriginDocument) -> int:
        """File a new document; raise ConflictError when the store has its bytes from elsewhere."""
        groups = self.connector.permissions(one)
        metadata = self._with_origin({}, one)
        # Claimed, so that nothing is indexed before the file's groups are set.
        attributes = FileAttributes(metadata=metadata, is_claimed=groups is not None)
        release_db()
        with self.connector.fetch(one, self.context) as content:
            uploaded = create_file(
                store=self.store,
                name=clean_path(one.title),
                content=content,
                attributes=attributes,
            )
        file = uploaded.file
        if not uploaded.is_new:
            raise ConflictError("The store has these bytes already, as “{name}”.", name=file.name)
        if groups is not None:
            file.restricted_to.set(_groups(groups))
            requeue_files(store=self.store, file_ids=[file.pk])
        return file.pk

    def replace(self, file_id: int, one: OriginDocument) -> int:
        """Give a file the bytes that are at its place now."""
        self.describe(file_id, one, is_same=False)
        file = _file(file_id)
        release_db()
        with self.connector.fetch(one, self.context) as content:
            replace_file(
                scope=Scope.operator(),
                file=file,
                content=content,
                changes={"metadata": self._with_origin(file.metadata, one)},
            )
        return file_id

    def describe(self, file_id: int, one: OriginDocument, *, is_same: bool = True) -> None:
        """Let a file be at another place, under another name, for other groups; chunks stay.

        Without ``is_same`` its bytes are other ones yet, and so is its mark.
        """
        file = _file(file_id)
        groups = self.connector.permissions(one)
        is_other = groups is not None or file.metadata.get("groups") is not None
        metadata = self._with_origin(file.metadata, one)
        if not is_same:
            metadata["mark"] = file.metadata.get("mark", "")
        update_file(
            scope=Scope.operator(),
            file=file,
            name=clean_path(one.title),
            content_type=file.content_type,
            metadata=metadata,
            restricted_to=_groups(groups or ()) if is_other else None,
        )

    def mark(self, file_id: int, one: OriginDocument) -> None:
        """Keep the version under which a file's bytes are known now, so they are not read again."""
        rows = models.File.objects.filter(pk=file_id)
        for metadata in rows.values_list("metadata", flat=True):
            rows.update(metadata=self._with_origin(metadata, one))

    def delete(self, known: KnownDocument) -> None:
        """Delete a file that is no longer there."""
        delete_files(scope=Scope.operator(), file_ids=[known.file_id])

    def is_restricted_otherwise(self, known: KnownDocument, one: OriginDocument) -> bool:
        """Return whether other groups may read it now than when it came."""
        groups = self.connector.permissions(one)
        return (None if groups is None else tuple(sorted(groups))) != known.groups

    def _with_origin(self, metadata: dict[str, Any], one: OriginDocument) -> dict[str, Any]:
        rest = {name: value for name, value in metadata.items() if name not in _OWN}
        groups = self.connector.permissions(one)
        own = {"mark": one.mark, "url": one.url, "groups": groups and sorted(groups)}
        told = {name: value for name, value in own.items() if value not in ("", None)}
        if groups is not None:
            told["groups"] = sorted(groups)
        return {**rest, "sync": self.label, "path": one.path, **told}


def _groups(names: Sequence[str]) -> list[Group]:
    # A group that nobody is in lets nobody read: what the origin closes stays closed.
    return [Group.objects.get_or_create(name=name)[0] for name in names]


def _file(file_id: int) -> models.File:
    file = models.File.objects.light().select_related("store").filter(pk=file_id).first()
    if file is None:
        raise NotFoundError("The file was deleted meanwhile.")
    return file


@dataclass(slots=True)
class SyncResult:
    """What a sync did: the plan, the files whose jobs wait, and what could not be done.

    ``failed`` are paths and why; ``kept`` are files that a list that is not whole did not name.
    """

    plan: SyncPlan
    queued: list[int] = field(default_factory=list)
    failed: list[tuple[str, RAGError | OSError]] = field(default_factory=list)
    kept: int = 0


OnStep = Callable[[str, str], None]


def sync_files(
    *,
    actions: SyncActions,
    is_forced: bool = False,
    is_dry_run: bool = False,
    on_step: OnStep = lambda what, path: None,
) -> SyncResult:
    """Bring the store's files of this label to what the origin holds, or tell what would be done.

    Raises ConflictError, before anything is done, when more than a quarter of them would be
    deleted, unless ``is_forced``, and what ``scan_origin`` raises. A file that fails is told and
    does not stop the others.
    """
    plan, scan = _scan_and_plan(actions)
    result = SyncResult(plan, failed=list(plan.unread.items()))
    if actions.context.early_end is not None:
        result.kept, plan.deleted = len(plan.deleted), []
    if is_dry_run:
        return result
    if plan.deletes_too_much and not is_forced:
        raise ConflictError(
            "{n} of {known} files are missing from “{folder}” and would be deleted.",
            hint="Look whether the folder is whole; sync by force if that is meant.",
            n=len(plan.deleted),
            known=plan.n_known,
            folder=actions.connector,
        )
    actions.context.renew()
    for what, path, action in _steps(plan, scan, actions):
        try:
            actions.context.tell(len(scan.listed))
        except ProviderTimeoutError as error:
            actions.context.end_early(error)
            break
        try:
            file_id = action()
        except (RAGError, OSError) as error:
            result.failed.append((path, error))
            continue
        on_step(what, path)
        if file_id is not None:
            result.queued.append(file_id)
    return result


Step = tuple[str, str, Callable[[], int | None]]


def _steps(plan: SyncPlan, scan: OriginScan, actions: SyncActions) -> list[Step]:
    at, steps = scan.listed, list[Step]()
    # Renames first: a new file may have the name that an old one leaves.
    for path, known in plan.renamed.items():
        moved = partial(actions.describe, known.file_id, at[path])
        steps.append(("renamed", f"{known.path} → {path}", moved))
    for known in plan.deleted:
        steps.append(("deleted", known.path, partial(actions.delete, known)))
    for path, file_id in plan.changed.items():
        steps.append(("changed", path, partial(actions.replace, file_id, at[path])))
    for path in plan.new:
        steps.append(("new", path, partial(actions.add, at[path])))
    for file_id, one in scan.remarked.items():
        steps.append(("marked", one.path, partial(actions.mark, file_id, one)))
    for path, known in actions.context.known.items():
        is_there = path in scan.digests and scan.digests[path] == known.sha256
        if is_there and actions.is_restricted_otherwise(known, at[path]):
            describe = partial(actions.describe, known.file_id, at[path])
            steps.append(("restricted", path, describe))
    return steps


def _scan_and_plan(actions: SyncActions) -> tuple[SyncPlan, OriginScan]:
    release_db()
    scan = scan_origin(connector=actions.connector, context=actions.context)
    # What is there and cannot be read is neither changed nor gone.
    known = [one for path, one in actions.context.known.items() if path not in scan.unread]
    plan = plan_sync(there=scan.digests, known=known)
    plan.unread = scan.unread
    return plan, scan
