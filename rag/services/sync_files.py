"""A store follows an origin. In: a folder or prefix, a store. Out: files taken, renamed, deleted.

Which files came from it stands in their metadata: ``sync`` is its label, ``path`` their place and
``mark`` their version there, if it has any. Other files of the store are never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, RAGError
from rag.core.origins import Origin
from rag.providers.postgres.connections import release_db
from rag.services.sync_deeds import Deeds
from rag.services.sync_plan import KnownFile, SyncPlan, plan_sync
from rag.services.sync_scan import Scan, scan_origin

# More than this share of the known files is not deleted by mistake.
MAX_DELETED, FEW = 0.25, 5
_KNOWN = ("pk", "metadata__path", "sha256", "size", "metadata__mark")


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did: the plan, the files whose jobs wait, and what could not be done."""

    plan: SyncPlan
    queued: tuple[int, ...]
    failed: tuple[str, ...]


def plan_of(*, store: models.Store, origin: Origin, label: str) -> SyncPlan:
    """Return what a sync would do; nothing is changed."""
    return _look(store, origin, label)[0]


def sync_files(
    *,
    scope: Scope,
    store: models.Store,
    origin: Origin,
    label: str,
    is_forced: bool = False,
    on_step: Callable[[str], None] = lambda what: None,
) -> Synced:
    """Bring the store's files of this label to what the origin holds.

    Raises ConflictError, before anything is done, when more than a quarter of them would be
    deleted, unless ``is_forced``, and what ``scan_origin`` raises. A file that fails is told and
    does not stop the others.
    """
    plan, scan = _look(store, origin, label)
    if _is_too_much(plan) and not is_forced:
        raise ConflictError(
            "{n} of {known} files are missing from “{folder}” and would be deleted.",
            hint="Look whether the folder is whole; sync by force if that is meant.",
            n=len(plan.deleted), known=plan.n_known, folder=origin,
        )  # fmt: skip
    queued: list[int] = []
    failed = [f"{path}: {reason}" for path, reason in plan.unread.items()]
    deeds, at = Deeds(scope, store, origin, label), scan.listed

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
        attempt("renamed", f"{known.path} → {path}", partial(deeds.rename, known, at[path]))
    for known in plan.deleted:
        attempt("deleted", known.path, partial(deeds.delete, known))
    for path, file_id in plan.changed.items():
        attempt("changed", path, partial(deeds.replace, file_id, at[path]))
    for path in plan.new:
        attempt("new", path, partial(deeds.take, at[path]))
    for file_id, one in scan.remarked.items():
        deeds.mark(file_id, one)
    return Synced(plan, tuple(queued), tuple(failed))


def _is_too_much(plan: SyncPlan) -> bool:
    n_gone = len(plan.deleted)
    return n_gone > MAX_DELETED * plan.n_known and (n_gone > FEW or n_gone == plan.n_known)


def _look(store: models.Store, origin: Origin, label: str) -> tuple[SyncPlan, Scan]:
    rows = store.files.filter(metadata__sync=label).values_list(*_KNOWN)
    known = [KnownFile(pk, str(path), sha, size, mark or "") for pk, path, sha, size, mark in rows]
    release_db()
    scan = scan_origin(origin=origin, known=known)
    # What is there and cannot be read is neither changed nor gone.
    known = [one for one in known if one.path not in scan.unread]
    plan = plan_sync(there=scan.digests, known=known)
    plan.unread = scan.unread
    return plan, scan
