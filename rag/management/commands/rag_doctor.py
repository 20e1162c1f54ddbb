"""``manage.py rag_doctor``: looks whether index, files, queue and settings fit together."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from typing import Any

from rag.management.rag_command import RagCommand
from rag.services.operations import CHECKS, CheckResult, repair, run_checks

# By the worst finding that is left.
EXIT = {"error": 2, "warning": 1}
_MARKS = {"error": "ERROR", "warning": "warning", "note": "note", "fixed": "fixed"}


class Command(RagCommand):
    """Looks whether chunks, vectors, terms, files, jobs, indexes and settings fit together.

    Ends with 2 for errors, 1 for warnings, 0 otherwise.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--fix", action="store_true", help="repair what is safely repaired")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            metavar="CHECK",
            help=f"look at this alone, may be given again; one of {', '.join(CHECKS)}",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Examine, repair, print; leave with the code of the worst finding that is left."""
        started, found, times = time.monotonic(), list[CheckResult](), dict[str, float]()
        for name, seconds, findings in run_checks(only=options["only"]):
            times[name] = round(seconds, 2)
            for finding in findings:
                found.append(repair(finding=finding) if options["fix"] else finding)
                if not options["json"]:
                    self._print(found[-1])
        levels = [finding.level for finding in found]
        seconds = round(time.monotonic() - started, 1)
        if options["json"]:
            whole = {
                "findings": [one.as_dict() for one in found],
                "seconds": seconds,
                "times": times,
            }
            self.stdout.write(json.dumps(whole, ensure_ascii=False, indent=1))
        else:
            n_fixed = levels.count("fixed")
            self.stdout.write(
                f"{levels.count('error')} errors, {levels.count('warning')} warnings,"
                f" {n_fixed} repaired, in {seconds} s"
            )
        code = max((EXIT.get(level, 0) for level in levels), default=0)
        if code:
            raise SystemExit(code)

    def _print(self, finding: CheckResult) -> None:
        how = "" if finding.how == "exact" else f" ({finding.how})"
        self.stdout.write(f"{_MARKS[finding.level]:8}{finding.check}: {finding.what}{how}")
        if finding.todo:
            can = " [--fix does it]" if finding.fix is not None else ""
            self.stdout.write(f"        {finding.todo}{can}")
