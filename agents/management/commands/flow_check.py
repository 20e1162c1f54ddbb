"""Check a flow's folder: ``flow_check PATH [--json]``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agents.flows.definition.archive import FLOW_FILE, read_flow_folder
from agents.flows.versions.versions import check_flow_files
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.management.rag_command import RagCommand


class Command(RagCommand):
    """Say what is wrong with a flow and where; exit 1 when it has errors."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="a flow's folder, or its YAML file")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        try:
            found = check_flow_files(
                files=read_flow_folder(path), scope=Scope.operator(), name=str(path)
            )
        except RAGError as error:
            if options["json"]:
                told = {"is_sound": False, "message": str(error), "findings": []}
                self.stdout.write(json.dumps(told, ensure_ascii=False, indent=2))
            raise
        n_errors = sum(one.level == "error" for one in found)
        if options["json"]:
            findings = [
                {"level": one.level, "line": one.line, "column": one.column, "message": one.text}
                for one in found
            ]
            told = {"is_sound": not n_errors, "message": "", "findings": findings}
            self.stdout.write(json.dumps(told, ensure_ascii=False, indent=2))
        else:
            # What an editor opens at the place.
            file = path / FLOW_FILE if path.is_dir() else path
            for one in found:
                style = self.style.ERROR if one.level == "error" else self.style.WARNING
                self.stdout.write(f"{file}:{one.line}:{one.column}: {style(one.level)}: {one.text}")
        if n_errors:
            raise CommandError(f"Errors: {n_errors}.")
        if not options["json"]:
            self.stdout.write(self.style.SUCCESS("The flow is sound."))
