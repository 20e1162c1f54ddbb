"""Progress bars of commands (indexing, reindex, evaluation) and reports of how it ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from django.core.management.base import CommandError
from tqdm import tqdm

from rag import models
from rag.core.errors import RAGError
from rag.services.ingest import IngestProgress, run_until_indexed
from rag.services.reindex import ReindexProgress, run_reindex


def index_with_progress(command: Any, ids: Sequence[int]) -> int:
    """Work off the files' jobs while a bar shows how far they are; return how many failed.

    Their errors and warnings are printed afterwards.
    """
    if ids:
        with tqdm(total=len(ids), unit="file", file=sys.stderr) as bar:

            def show(progress: IngestProgress) -> None:
                bar.n = round(progress.share * len(ids), 2)
                bar.refresh()

            run_until_indexed(file_ids=ids, on_progress=show)
    return report_files(command, ids)


def report_files(command: Any, ids: Sequence[int]) -> int:
    """Print errors and warnings of the files; return how many are in error."""
    n_failed = n_chunks = 0
    for file in models.File.objects.light().filter(pk__in=ids).order_by("name"):
        if file.status == models.File.Status.ERROR:
            n_failed += 1
            command.stderr.write(f"{file.name}: {RAGError.from_dict(file.error or {})}")
            continue
        n_chunks += file.n_chunks
        for warning in file.warnings:
            text = warning if isinstance(warning, str) else RAGError.from_dict(warning)
            command.stderr.write(f"{file.name}: {text}")
    command.stdout.write(f"{len(ids) - n_failed} files with {n_chunks} chunks are searchable.")
    return n_failed


def reindex_with_progress(run: models.ReindexRun) -> models.ReindexRun:
    """Work a run off in this process while a bar shows how far it is; return it as it ended."""
    with tqdm(unit="chunk", file=sys.stderr) as bar:

        def show(progress: ReindexProgress) -> None:
            bar.desc, bar.total, bar.n = progress.stage, progress.n_total, progress.n_done
            bar.refresh()

        run_reindex(run_id=run.pk, on_progress=show)
    run.refresh_from_db()
    return run


def report_run(command: Any, run: models.ReindexRun) -> None:
    """Print a run's state and report; raise CommandError for one that failed or was refused."""
    where = f" to {run.target}" if run.target else ""
    command.stdout.write(
        f"Run {run.pk}: {run.what}{where}: {run.state}"
        + (f", {run.stage} {run.n_done} of {run.n_total}" if run.state in run.BUSY else "")
    )
    for name, paired in run.report.get("compared", {}).items():
        command.stdout.write(
            f"{name}: nDCG@10 {paired['before']:.4f} before, {paired['after']:.4f} after"
            f" ({paired['low']:+.4f} to {paired['high']:+.4f}, p {paired['p_value']:.3f})"
        )
    if "recall" in run.report:
        command.stdout.write(f"recall@10 of the index: {run.report['recall']:.3f}")
    if "changed" in run.report:
        command.stdout.write(f"rows that differed: {run.report['changed']}")
    if run.state in (models.ReindexRun.State.FAILED, models.ReindexRun.State.REFUSED):
        raise CommandError(str(RAGError.from_dict(run.error or {})))


@contextmanager
def stage_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yield ``show(stage, n, total)``, which moves the bar of a stage on by ``n``."""
    bars: dict[str, tqdm[Any]] = {}
    with ExitStack() as open_bar:

        def show(stage: str, n: int, total: int) -> None:
            if stage not in bars:
                open_bar.close()
                bar = tqdm(total=total, desc=stage, unit="text", file=sys.stderr)
                bars[stage] = open_bar.enter_context(bar)
            bars[stage].update(n)

        yield show
