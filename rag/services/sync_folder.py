"""A store follows a folder. In: a folder, a store, a label. Out: files taken, renamed, deleted.

Which files came from the folder stands in their metadata: ``sync`` is its label, ``path`` their
place. Other files of the store are never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, RAGError
from rag.services.delete_files import delete_files
from rag.services.files import update_file
from rag.services.ingest import ingest_file
from rag.services.replace_file import replace_file
from rag.services.sync_plan import KnownFile, SyncPlan, plan_sync, scan_folder

# More than this share of the known files is not deleted by mistake.
MAX_DELETED, FEW = 0.25, 5


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did: the plan, the files whose jobs wait, and what could not be done."""

    plan: SyncPlan
    queued: tuple[int, ...]
    failed: tuple[str, ...]


def plan_of(*, store: models.Store, folder: Path, label: str) -> SyncPlan:
    """Return what a sync would do; nothing is changed."""
    rows = store.files.filter(metadata__sync=label).values_list("pk", "metadata__path", "sha256")
    known = [KnownFile(pk, str(path), sha256) for pk, path, sha256 in rows]
    return plan_sync(there=scan_folder(folder=folder), known=known)


def sync_folder(
    *,
    scope: Scope,
    store: models.Store,
    folder: Path,
    label: str,
    is_forced: bool = False,
    on_step: Callable[[str], None] = lambda what: None,
) -> Synced:
    """Bring the store's files of this label to what the folder holds.

    Raises ConflictError, before anything is done, when more than a quarter of them would be
    deleted, unless ``is_forced``. A file that fails is told and does not stop the others.
    """
    plan = plan_of(store=store, folder=folder, label=label)
    n_gone = len(plan.deleted)
    is_many = n_gone > MAX_DELETED * plan.n_known and (n_gone > FEW or n_gone == plan.n_known)
    if is_many and not is_forced:
        raise ConflictError(
            "{n} of {known} files are missing from “{folder}” and would be deleted.",
            hint="Look whether the folder is whole; sync by force if that is meant.",
            n=n_gone, known=plan.n_known, folder=folder,
        )  # fmt: skip
    queued: list[int] = []
    failed: list[str] = []

    def attempt(what: str, path: str, deed: Callable[[], int | None]) -> None:
        try:
            file_id = deed()
        except (RAGError, OSError) as error:
            failed.append(f"{path}: {error}")
            return
        on_step(f"{what}: {path}")
        if file_id is not None:
            queued.append(file_id)

    # Renames first: a new file may have the name that an old one leaves.
    for path, known in plan.renamed.items():
        attempt("renamed", f"{known.path} → {path}", lambda p=path, k=known: _rename(scope, k, p))  # type: ignore[misc]
    for known in plan.deleted:
        attempt("deleted", known.path, lambda k=known: _delete(scope, k))  # type: ignore[misc]
    for path, file_id in plan.changed.items():
        attempt("changed", path, lambda p=path, f=file_id: _replace(scope, folder / p, f))  # type: ignore[misc]
    for path in plan.new:
        attempt("new", path, lambda p=path: _take(store, folder, p, label))  # type: ignore[misc]
    return Synced(plan, tuple(queued), tuple(failed))


def _rename(scope: Scope, known: KnownFile, path: str) -> None:
    file = models.File.objects.light().select_related("store").get(pk=known.file_id)
    update_file(
        scope=scope, file=file, name=PurePosixPath(path).name, content_type=file.content_type,
        metadata={**file.metadata, "path": path},
    )  # fmt: skip


def _delete(scope: Scope, known: KnownFile) -> None:
    delete_files(scope=scope, file_ids=[known.file_id])


def _replace(scope: Scope, path: Path, file_id: int) -> int:
    file = models.File.objects.light().select_related("store").get(pk=file_id)
    with path.open("rb") as content:
        replace_file(scope=scope, file=file, content=content, changes={})
    return file_id


def _take(store: models.Store, folder: Path, path: str, label: str) -> int | None:
    with (folder / path).open("rb") as content:
        taken = ingest_file(
            store=store, name=PurePosixPath(path).name, content=content,
            metadata={"sync": label, "path": path},
        )  # fmt: skip
    if taken.is_new:
        return taken.file.pk
    raise ConflictError("The store has these bytes already, as “{name}”.", name=taken.file.name)
