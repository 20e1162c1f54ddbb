"""Reindex: rebuild a store's files, terms or vectors, or migrate it to another embedding model."""

from __future__ import annotations

from rag.services.reindex.estimate import IN_TURN, estimate_reindex
from rag.services.reindex.migrate import force_swap, roll_back_space, swap_space
from rag.services.reindex.migrate_end import (
    cancel_reindex,
    drop_old_space,
    drop_old_space_when_due,
    purge_space,
)
from rag.services.reindex.progress import ReindexProgress
from rag.services.reindex.runs import ReindexOptions, find_reindex, queue_reindex, start_reindex
from rag.services.reindex.worker import resume_reindex, run_reindex
