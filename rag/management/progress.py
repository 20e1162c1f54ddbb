"""A progress bar over files for commands. In: ids. Out: how they ended, told on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from rag import models
from rag.core.errors import RAGError
from rag.services.ingest.worker import Progress, work_off


def work_with_bar(ids: Sequence[int]) -> None:
    """Work off the files' jobs in this process while a bar shows how far they are."""
    if not ids:
        return
    with tqdm(total=len(ids), unit="file", file=sys.stderr) as bar:

        def show(progress: Progress) -> None:
            bar.n = round(progress.share * len(ids), 2)
            bar.refresh()

        work_off(file_ids=ids, on_progress=show)


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
