"""Rebuild in place: a store's files, its terms from its texts, or its vectors in the live space."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice

from django.db.models import Q

from rag import models
from rag.core.access import Scope
from rag.core.documents import IMAGE_KINDS, PICTURED_KINDS
from rag.core.ocr.scans import OCR_VERSION
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.lexical.backfill import read_term_rows, remove_orphan_terms, write_terms
from rag.providers.postgres.lexical.pack_rows import TermJob, TermPack, pack_terms
from rag.providers.postgres.vectors.backfill import chunks_without_vector
from rag.services.files import cancel_files, requeue_files
from rag.services.index import embed_chunks, queue_index_builds, reweigh_if_drifted
from rag.services.reindex.runs import OnProgress, ProgressRecorder, ReindexProgress, ignore_progress
from rag.stages.text.terms import VERSION

BATCH = 1000
# Below this many chunks the processes cost more than they save.
FEW = 3000
# New words are found when they are rolled up; each time costs as much as writing 10,000 chunks.
ROLL_UP_S = 10.0


def reindex_terms(*, run: models.ReindexRun, on_progress: OnProgress = ignore_progress) -> bool:
    """Compare each row of words with its text and write those that differ; False: all is done.

    From the run's position on. A store that was cut into terms by this version already is passed
    over where only what is stale is wanted.
    """
    store = run.store
    if run.options.get("only_stale") and store.terms_version == VERSION:
        return False
    if run.file_ids is None:
        remove_orphan_terms(store.pk)
    ids = _remaining(run)
    clock = ProgressRecorder(run, stage="words", n_total=len(ids), on_progress=on_progress)
    n_changed = 0
    rolled_up = time.monotonic()
    for some, pack in _packs(store, ids, _processes(run, len(ids))):
        while not write_terms(store.pk, pack):
            pack = pack_terms(_job(store, some))
        n_changed += len(pack.ids)
        clock.tick(len(some), some[-1])
        if time.monotonic() - rolled_up > ROLL_UP_S:
            stats.roll_up([store.pk])
            rolled_up = time.monotonic()
    stats.roll_up([store.pk])
    stats.merge_pending_terms()
    reweigh_if_drifted(store_id=store.pk)
    run.report = {**run.report, "changed": run.report.get("changed", 0) + n_changed}
    models.ReindexRun.objects.filter(pk=run.pk).update(report=run.report)
    if run.file_ids is None:
        models.Store.objects.filter(pk=store.pk).update(terms_version=VERSION)
    return False


def _processes(run: models.ReindexRun, n_chunks: int) -> int:
    """Return how many processes cut words beside this one, which writes; 0: it does both."""
    wanted = run.options.get("workers") or len(os.sched_getaffinity(0))
    return 0 if n_chunks < FEW or wanted == 1 else int(wanted)


def _packs(
    store: models.Store, ids: Sequence[int], processes: int
) -> Iterator[tuple[list[int], TermPack]]:
    if not processes:
        for some in _batches(ids):
            yield some, pack_terms(_job(store, some))
        return
    # A forked process would inherit connections and the locks of the models' threads.
    context = multiprocessing.get_context("spawn")
    waiting: deque[tuple[list[int], Future[TermPack]]] = deque()
    with ProcessPoolExecutor(processes, context) as pool:
        for some in _batches(ids):
            waiting.append((some, pool.submit(pack_terms, _job(store, some))))
            if len(waiting) > 2 * processes:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _job(store: models.Store, ids: Sequence[int]) -> TermJob:
    return TermJob(store.pk, store.avg_len_frozen, read_term_rows(ids))


def _batches(ids: Sequence[int]) -> Iterator[list[int]]:
    rest = iter(ids)
    while batch := list(islice(rest, BATCH)):
        yield batch


def reembed_store(*, run: models.ReindexRun, on_progress: OnProgress = ignore_progress) -> bool:
    """Embed every chunk that a run names, from its position on; False: all is done.

    Old and new vectors are of one model, so searches may see both. ``only_stale`` embeds no more
    than what has no vector.
    """
    space_id = run.store.live_space_id
    only_stale = bool(run.options.get("only_stale"))
    ids = (
        chunks_without_vector(space_id, run.store_id, run.file_ids)
        if only_stale
        else _remaining(run)
    )
    clock = ProgressRecorder(run, stage="embedding", n_total=len(ids), on_progress=on_progress)
    embed_chunks(
        space_id=space_id,
        chunk_ids=ids,
        workers=int(run.options.get("workers") or 1),
        again=not only_stale,
        on_batch=clock.tick,
    )
    queue_index_builds(store_id=run.store_id)
    return False


def _remaining(run: models.ReindexRun) -> list[int]:
    chunks = models.Chunk.objects.live().filter(store=run.store_id, pk__gt=run.position)
    if run.file_ids is not None:
        chunks = chunks.filter(file__in=run.file_ids)
    return list(chunks.order_by("pk").values_list("pk", flat=True))


Whats = models.ReindexRun.What
FileStatus = models.File.Status
# What the parsers of this version call themselves; a test holds it against them.
PARSERS = frozenset(
    {
        "captions/1",
        "csv/2",
        "epub/3",
        "html/3",
        "json/1",
        "libreoffice/4",
        "mail/3",
        "notebook/1",
        "ofd/1",
        "opendocument/1",
        "ods/1",
        "picture/1",
        "plain/4",
        "pypdfium2/5",
        "sections/1",
        "sheets/2",
        "word97/1",
        "xberg/4",
        "xls/1",
        "xml/1",
        "yaml/1",
    }
)
# What they call themselves where text recognition took part.
WITH_OCR = frozenset(f"{name}+{OCR_VERSION}" for name in PARSERS)


def reindex_files(*, run: models.ReindexRun, on_progress: OnProgress = ignore_progress) -> bool:
    """Queue the run's files, once; return True while some of their jobs wait or run."""
    if run.stage != "files":
        files = models.File.objects.filter(store=run.store_id)
        if run.file_ids is not None:
            files = files.filter(pk__in=run.file_ids)
        if run.options.get("only_stale"):
            files = files.filter(is_stale())
        file_ids = run.file_ids = list(files.order_by("pk").values_list("pk", flat=True))
        # Queued first: who dies in between queues them again, which changes nothing.
        requeue_files(
            store=run.store,
            file_ids=run.file_ids,
            fresh_vectors=run.what == Whats.ALL,
            from_text=run.what == Whats.CHUNKS,
            per_second=float(run.options.get("per_second") or 0),
        )
        models.ReindexRun.objects.filter(pk=run.pk).update(file_ids=run.file_ids)
        ProgressRecorder(run, stage="files", n_total=len(file_ids))
        run.stage = "files"
    return count_finished_files(run=run, on_progress=on_progress)


def is_stale() -> Q:
    """Return which files are not as this version would read them, or never were read."""
    unread = Q(status__in=(FileStatus.ERROR, FileStatus.IDLE))
    # xberg gave .doc files that name too before LibreOffice was tried first.
    is_old = ~Q(parser__in=PARSERS | WITH_OCR) | Q(kind="doc", parser__startswith="xberg/")
    lacks_ocr = Q(store__ocr=True, kind__in=("pdf", *PICTURED_KINDS, *IMAGE_KINDS)) & ~Q(
        parser__in=WITH_OCR
    )
    return unread | Q(n_chunks__gt=0) & (is_old | lacks_ocr)


def count_finished_files(
    *, run: models.ReindexRun, on_progress: OnProgress = ignore_progress
) -> bool:
    """Count the run's files that have ended; return True while some have not."""
    rows = models.File.objects.filter(pk__in=run.file_ids or ())
    states = list(rows.values_list("status", flat=True))
    n_busy = sum(state in (FileStatus.PROCESSING, FileStatus.UPLOADING) for state in states)
    run.n_total = len(run.file_ids or ())
    run.n_done, run.n_failed = run.n_total - n_busy, states.count(FileStatus.ERROR)
    run.save(update_fields=["n_done", "n_failed", "n_total"])
    on_progress(ReindexProgress("files", run.n_done, run.n_total, None))
    return n_busy > 0


def cancel_waiting_files(*, run: models.ReindexRun) -> None:
    """Take those of the run's files that still wait out of the queue; their revisions serve."""
    if run.stage == "files":
        cancel_files(scope=Scope.operator(), file_ids=run.file_ids or ())
