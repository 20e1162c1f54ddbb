"""Take a folder in as a version of its flow: ``flow_import PATH [--no-activate]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from agents.flows.versions.versions import import_flow
from rag.core.access import Scope
from rag.management.rag_command import RagCommand


class Command(RagCommand):
    """Save a flow's folder as a version and let new runs take it."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="a flow's folder, or its YAML file")
        parser.add_argument("--note", default="", help="what this version changes")
        parser.add_argument("--no-activate", action="store_true", help="save it only")

    def handle(self, *args: Any, **options: Any) -> None:
        version = import_flow(
            path=options["path"],
            scope=Scope.operator(),
            note=options["note"],
            is_activated=not options["no_activate"],
        )
        self.stdout.write(self.style.SUCCESS(str(version)))
