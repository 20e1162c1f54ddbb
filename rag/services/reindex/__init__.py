"""Reindex: rebuild a store's files, terms or vectors, or move it to another embedding model."""

from __future__ import annotations

from rag.services.reindex.estimate import IN_TURN, estimate_reindex
from rag.services.reindex.move import (
    cancel_reindex,
    drop_old_space,
    drop_old_space_when_due,
    force_swap,
    purge_space,
    roll_back_space,
    swap_space,
)
from rag.services.reindex.runs import (
    ReindexOptions,
    ReindexProgress,
    find_reindex,
    queue_reindex,
    rechunk_store,
    start_reindex,
)
from rag.services.reindex.worker import resume_reindex, run_reindex
