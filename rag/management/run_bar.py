"""A reindex run on a terminal. In: a run. Out: a bar while it works, then how it ended."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError
from tqdm import tqdm

from rag import models
from rag.core.errors import RAGError
from rag.services.reindex.progress import RunProgress
from rag.services.reindex.worker import work_run

States = models.ReindexRun.State


def run_with_bar(run: models.ReindexRun) -> models.ReindexRun:
    """Work a run off in this process while a bar shows how far it is; return it as it ended."""
    with tqdm(unit="chunk", file=sys.stderr) as bar:

        def show(progress: RunProgress) -> None:
            bar.desc, bar.total, bar.n = progress.stage, progress.n_total, progress.n_done
            bar.refresh()

        work_run(run_id=run.pk, on_progress=show)
    run.refresh_from_db()
    return run


def tell_run(command: Any, run: models.ReindexRun) -> None:
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
    if run.state in (States.FAILED, States.REFUSED):
        raise CommandError(str(RAGError.from_dict(run.error or {})))
