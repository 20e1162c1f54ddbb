"""Write a store to a file: ``rag_dump --store S PATH [--vectors]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from rag.management.rag_command import RagCommand, named_store
from rag.services.stores import dump_store


class Command(RagCommand):
    """Write a store to a file: settings, files with their bytes, chunks with their edits, golden
    questions. The site goes on; the file holds the store as of one moment.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="where to; a file there is replaced")
        parser.add_argument("--store", required=True, help="slug or name of the store")
        parser.add_argument(
            "--vectors",
            action="store_true",
            help="with vectors: larger, but loaded without a model",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        store = named_store(options["store"])
        counts = dump_store(store=store, path=options["path"], has_vectors=options["vectors"])
        totals = (counts.get(kind, 0) for kind in ("file", "chunk", "question"))
        self.stdout.write("{} files, {} chunks, {} golden questions written.".format(*totals))
