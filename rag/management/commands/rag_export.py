"""Write the configuration as files: ``rag_export FOLDER [--conversations] [--as-user NAME]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from rag.core.access import Scope
from rag.management.rag_command import RagCommand, named_user
from rag.services.access import scope_of
from rag.services.configuration import export_configuration


class Command(RagCommand):
    """Write stores, golden questions, flows and agents into a folder of YAML files for rag_apply;
    secrets are named, never written.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder", type=Path, help="where to; its files of these kinds are replaced"
        )
        parser.add_argument(
            "--conversations", action="store_true", help="conversations with their feedback, too"
        )
        parser.add_argument("--as-user", help="what this user may change; else everything")

    def handle(self, *args: Any, **options: Any) -> None:
        user = named_user(options["as_user"]) if options["as_user"] else None
        n_files = export_configuration(
            folder=options["folder"],
            scope=Scope.operator() if user is None else scope_of(user),
            has_records=options["conversations"],
        )
        self.stdout.write(f"{n_files} files written.")
