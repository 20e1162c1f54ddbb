"""Measure the search on judged questions: ``rag_eval --data DIR``."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from rag.core.errors import RAGError
from rag.evals.metrics import MEASURES
from rag.services.evaluate import MODES, Evaluation, evaluate


class Command(BaseCommand):
    """Measure the search on judged questions."""

    help = (
        "Index a folder of corpus.jsonl, queries.jsonl and qrels.tsv into a store of its own, "
        "search with every query and print how well it went."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--data", required=True, type=Path, metavar="DIR", help="the folder")
        parser.add_argument(
            "--queries", type=Path, metavar="DIR", help="take the queries of this folder instead"
        )
        parser.add_argument("--mode", choices=[*MODES, "all"], default="hybrid")
        parser.add_argument("--limit", type=int, metavar="N", help="the first N queries only")
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command."""
        modes = list(MODES) if options["mode"] == "all" else [options["mode"]]
        try:
            runs = [self._run(mode, options) for mode in modes]
        except RAGError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            found = [run.as_dict() for run in runs]
            found_or_one = found if options["mode"] == "all" else found[0]
            self.stdout.write(json.dumps(found_or_one, ensure_ascii=False))
        else:
            self._print(runs)

    def _run(self, mode: str, options: dict[str, Any]) -> Evaluation:
        with _Bars() as bars:
            return evaluate(
                data_dir=options["data"], mode=mode, limit=options["limit"],
                query_dir=options["queries"], on_progress=bars.show,
            )  # fmt: skip

    def _print(self, runs: list[Evaluation]) -> None:
        first = runs[0]
        self.stdout.write(
            f"{first.data}: {first.n_documents} documents, {first.n_queries} queries, {first.model}"
        )
        self.stdout.write("mode    " + "".join(f"{name:>9}" for name in MEASURES) + "   SQL ms")
        for run in runs:
            figures = "".join(f"{run.figures[name]:9.3f}" for name in MEASURES)
            self.stdout.write(f"{run.mode:8}{figures}{run.sql_ms:9.1f}")


class _Bars:
    """One progress bar a stage, on the error stream."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None
        self._stage = ""

    def __enter__(self) -> _Bars:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, stage: str, n: int, total: int) -> None:
        """Move the bar of ``stage`` on by ``n``."""
        if self._bar is None or stage != self._stage:
            self.__exit__()
            self._bar = tqdm(total=total, desc=stage, unit="text", file=sys.stderr)
            self._stage = stage
        self._bar.update(n)
