"""Apply a configuration kept as files: ``rag_apply FOLDER [--dry-run] [--prune]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from rag.core.access import Scope
from rag.management.rag_command import RagCommand, named_user
from rag.services.access import scope_of
from rag.services.configuration import apply_configuration


class Command(RagCommand):
    """Make stores, golden questions, flows and agents what the files of a folder say, all or none,
    and print the difference. What no file says stays as it is.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="what rag_export writes")
        parser.add_argument("--dry-run", action="store_true", help="print it only")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="delete what has no file in a folder that is there: stores with their documents",
        )
        parser.add_argument("--as-user", help="by the rights of this user; else everything")

    def handle(self, *args: Any, **options: Any) -> None:
        user = named_user(options["as_user"]) if options["as_user"] else None
        applied = apply_configuration(
            folder=options["folder"],
            scope=Scope.operator() if user is None else scope_of(user),
            may=(lambda permission: True) if user is None else user.has_perm,
            is_dry=options["dry_run"],
            prunes=options["prune"],
        )
        self.stdout.write(applied.diff, ending="")
        would = "would be changed" if options["dry_run"] else "changed"
        self.stdout.write(f"{applied.n_changed} {would}.")
