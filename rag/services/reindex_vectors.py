"""A store's vectors are made anew in the space it stands on. In: a run. Out: rows replaced."""

from __future__ import annotations

from rag import models
from rag.providers.postgres.backfill import missing_chunks
from rag.services.move_fill import embed_chunks
from rag.services.reindex_progress import OnProgress, RunClock, silent
from rag.services.spaces import queue_index_builds


def embed_store(*, run: models.ReindexRun, on_progress: OnProgress = silent) -> bool:
    """Embed every chunk that a run names, from its position on; False: all is done.

    Old and new vectors are of one model, so searches may see both. ``only_stale`` embeds no more
    than what has no vector.
    """
    space_id = run.store.live_space_id
    only_stale = bool(run.options.get("only_stale"))
    ids = missing_chunks(space_id, run.store_id, run.file_ids) if only_stale else _all_left(run)
    clock = RunClock(run, stage="embedding", n_total=len(ids), on_progress=on_progress)
    embed_chunks(
        space_id=space_id, chunk_ids=ids, workers=int(run.options.get("workers") or 1),
        again=not only_stale, on_batch=clock.tick,
    )  # fmt: skip
    queue_index_builds(store_id=run.store_id)
    return False


def _all_left(run: models.ReindexRun) -> list[int]:
    chunks = models.Chunk.objects.live().filter(store=run.store_id, pk__gt=run.position)
    if run.file_ids is not None:
        chunks = chunks.filter(file__in=run.file_ids)
    return list(chunks.order_by("pk").values_list("pk", flat=True))
