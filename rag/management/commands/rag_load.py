"""Read a store that rag_dump wrote: ``rag_load PATH [--name N] [--model provider:model]``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from tqdm import tqdm

from rag.core.errors import ConflictError
from rag.management.rag_command import RagCommand
from rag.services.stores import load_store


class Command(RagCommand):
    """Make a new store of a file that rag_dump wrote, here or elsewhere.

    Vectors are taken over where the file has them and the model is the same, else they are made.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="what rag_dump wrote")
        parser.add_argument("--name", default="", help="of the new store; default: as it was")
        parser.add_argument("--model", default="", help="provider:model; default: as it was")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["path"].is_file():
            raise CommandError(f"There is no file “{options['path']}”.")
        try:
            with tqdm(unit="line", file=sys.stderr) as bar:
                store = load_store(
                    path=options["path"],
                    name=options["name"],
                    model=options["model"],
                    on_line=bar.update,
                )
        except ConflictError as error:
            raise CommandError(f"{error} Give another name with --name.") from error
        self.stdout.write(
            f"“{store.name}” ({store.slug}) has {store.files.count()} files and"
            f" {store.n_chunks} chunks, and stands on {store.space}."
        )
