"""Run the cases beside a flow: ``flow_test PATH [--json]``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agents.flows.versions.dry_run import CaseResult, run_cases
from rag.management.rag_command import RagCommand


class Command(RagCommand):
    """Run a flow's cases without models and sources; exit 1 when one is not as expected."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="a flow's folder with cases.yaml")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        results = run_cases(path=options["path"])
        if options["json"]:
            told = [asdict(result) for result in results]
            self.stdout.write(json.dumps(told, ensure_ascii=False, indent=2))
        else:
            for result in results:
                self._print(result)
        n_failed = sum(bool(result.faults) for result in results)
        if n_failed:
            raise CommandError(f"{n_failed} of {len(results)} cases failed.")

    def _print(self, result: CaseResult) -> None:
        mark = self.style.ERROR("failed") if result.faults else self.style.SUCCESS("ok")
        self.stdout.write(f"{mark}  {result.name}: {' → '.join(result.route)}")
        for fault in result.faults:
            self.stdout.write(f"    {fault}")
