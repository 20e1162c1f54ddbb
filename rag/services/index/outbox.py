"""Outbox to Milvus: switch it on or off, and drain it so that Milvus holds what Postgres holds."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import transaction

from rag import models
from rag.models.outbox import WORDS
from rag.providers.milvus.collections import (
    drop_collection,
    fed_spaces,
    feed_collection,
    iterate_chunk_ids,
    make_collection,
)
from rag.providers.milvus.server import MilvusServer
from rag.providers.postgres.db.connections import release_db
from rag.providers.postgres.outbox.feed_rows import (
    deleted_chunks,
    feedable_spaces,
    read_vectors,
    read_words,
)
from rag.providers.postgres.outbox.rows import (
    PendingRows,
    enable_outbox,
    enqueue_all,
    enqueue_chunks,
    mark_fed,
    outbox_lock,
    outbox_state,
    purge_fed,
    read_pending,
)
from rag.services.wiring.registry import is_milvus, milvus_server

BATCH = 1000
# Of a job; the next one goes on. Workers have other things to do meanwhile.
BUDGET_S = 20.0


def start_outbox(*, everything: bool = False) -> int:
    """Let changes be noted from now on, and all chunks if they were not before or ``everything``.

    Searches go on meanwhile. Returns how many rows were noted, among them what Milvus holds and
    Postgres does not. Raises ProviderError.
    """
    if outbox_state().is_on and not everything:
        return 0
    n_lost = _enqueue_lost()
    with transaction.atomic():
        # Waits for the writers under way; those after it are noted by the triggers.
        enable_outbox(True)
    return n_lost + enqueue_all()


@transaction.atomic
def stop_outbox() -> int:
    """Note no changes any more and forget those that wait; return how many. Milvus is not asked."""
    enable_outbox(False)
    return models.OutboxRow.objects.all().delete()[0]


def _enqueue_lost() -> int:
    n_lost = 0
    server = milvus_server()
    release_db()
    for space_id in sorted(fed_spaces(server)):
        if space_id and space_id not in feedable_spaces():
            continue
        for held in iterate_chunk_ids(server, space_id):
            gone = deleted_chunks(space_id, held)
            enqueue_chunks(space_id, gone)
            release_db()
            n_lost += len(gone)
    return n_lost


def drain_outbox(
    *,
    budget_s: float = BUDGET_S,
    is_waiting: bool = False,
    on_batch: Callable[[int], None] = lambda n: None,
) -> int:
    """Feed Milvus until nothing waits or the time is up; return how many changes were fed.

    One at a time: while somebody else feeds, this returns 0, or waits for them if ``is_waiting``.
    ``on_batch`` hears how many were fed. Raises ProviderError where Milvus fails; what was not fed
    waits on.
    """
    server = milvus_server()
    with outbox_lock(is_waiting=is_waiting) as is_ours:
        if not is_ours:
            return 0
        purge_fed()
        made = _drop_lost(server)
        n_fed, ends = 0, time.monotonic() + budget_s
        while time.monotonic() < ends and (waiting := read_pending(BATCH)).row_ids:
            _feed_batch(server, waiting, made)
            mark_fed(waiting.row_ids)
            n_fed += len(waiting.row_ids)
            on_batch(len(waiting.row_ids))
        return n_fed


def flush_outbox() -> None:
    """Return when Milvus, if it is asked at all, has what is committed now; raises as draining."""
    if is_milvus():
        drain_outbox(budget_s=float("inf"), is_waiting=True)


def _feed_batch(server: MilvusServer, waiting: PendingRows, made: set[int]) -> None:
    dims = feedable_spaces()
    for space_id, chunk_ids in waiting.chunks.items():
        if space_id and space_id not in dims:
            # The space was given up meanwhile, and its collection goes with the next drain.
            continue
        rows = read_vectors(space_id, chunk_ids) if space_id else read_words(chunk_ids)
        release_db()
        if space_id not in made:
            make_collection(server, space_id, dims.get(space_id, 0))
            made.add(space_id)
        gone = sorted(set(chunk_ids) - {row.chunk_id for row in rows})
        feed_collection(server, space_id, rows, gone)


def _drop_lost(server: MilvusServer) -> set[int]:
    """Remove the collections of spaces that are gone; return those that are left."""
    release_db()
    # In this order: what is made between both looks has its table.
    there = fed_spaces(server)
    left = {WORDS, *feedable_spaces()}
    for space_id in there - left:
        drop_collection(server, space_id)
    return there & left
