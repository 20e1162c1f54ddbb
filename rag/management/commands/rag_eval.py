"""Measure the search: ``rag_eval --data DIR``, or a store's golden questions, ``--store S``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from rag.evals.metrics import MEASURES
from rag.management.eval_store import add_store_arguments, evaluate_golden, reject_store_options
from rag.management.progress import stage_bars
from rag.management.rag_command import RagCommand
from rag.services.evaluation import MODES, Evaluation, evaluate_folder


class Command(RagCommand):
    """Index a folder of corpus.jsonl, queries.jsonl and qrels.tsv into a store of its own, search
    with every query and print how well it went. With --store: ask the store's golden questions,
    keep the run, and compare it with the one before; exit code 1 when a limit is not kept.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--data", type=Path, metavar="DIR", help="the folder")
        what.add_argument("--store", metavar="S", help="the store's slug or name")
        parser.add_argument(
            "--queries", type=Path, metavar="DIR", help="take the queries of this folder instead"
        )
        parser.add_argument("--mode", choices=[*MODES, "all"], default=None)
        parser.add_argument("--limit", type=int, metavar="N", help="the first N queries only")
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
        add_store_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        reject_store_options(options)
        if options["store"]:
            evaluate_golden(self.stdout, options)
            return
        mode = options["mode"] or "hybrid"
        modes = list(MODES) if mode == "all" else [mode]
        runs = [self._run(one, options) for one in modes]
        if options["json"]:
            found = [run.as_dict() for run in runs]
            told = found if mode == "all" else found[0]
            self.stdout.write(json.dumps(told, ensure_ascii=False))
        else:
            self._print(runs)

    def _run(self, mode: str, options: dict[str, Any]) -> Evaluation:
        with stage_bars() as show:
            return evaluate_folder(
                data_dir=options["data"],
                mode=mode,
                limit=options["limit"],
                query_dir=options["queries"],
                on_progress=show,
            )

    def _print(self, runs: list[Evaluation]) -> None:
        first = runs[0]
        self.stdout.write(
            f"{first.data}: {first.n_documents} documents, {first.n_queries} queries, {first.model}"
        )
        self.stdout.write("mode    " + "".join(f"{name:>9}" for name in MEASURES) + "   SQL ms")
        for run in runs:
            figures = "".join(f"{run.figures[name]:9.3f}" for name in MEASURES)
            self.stdout.write(f"{run.mode:8}{figures}{run.sql_ms:9.1f}")
