"""Take a folder in as a version of its flow: ``flow_import PATH [--no-activate]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.flows.versions.versions import import_flow
from rag.core.access import Scope
from rag.core.errors import RAGError


class Command(BaseCommand):
    """Save a flow's folder as a version and let new runs take it."""

    help = "Save a flow's folder as a version and let new runs take it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("path", type=Path, help="a flow's folder, or its YAML file")
        parser.add_argument("--note", default="", help="what this version changes")
        parser.add_argument("--no-activate", action="store_true", help="save it only")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command."""
        try:
            version = import_flow(
                path=options["path"],
                scope=Scope.operator(),
                note=options["note"],
                is_activated=not options["no_activate"],
            )
        except RAGError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(self.style.SUCCESS(str(version)))
