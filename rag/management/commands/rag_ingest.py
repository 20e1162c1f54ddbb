"""Take files into a store: ``rag_ingest PATH... --store S``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from rag import models
from rag.core.errors import NotFoundError, RAGError
from rag.management.progress import index_with_progress
from rag.management.rag_command import RagCommand, named_store
from rag.services.files import UploadItem, collect_items, upload_file
from rag.services.index import ensure_space
from rag.services.ingest import estimate_ingest
from rag.services.stores import create_store
from rag.stages.detect.decode import encoding_name


class Command(RagCommand):
    """Take files, folders, globs and zips into a store; run again to go on after a stop."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "paths", nargs="+", metavar="PATH", help="file, folder, glob, zip; - reads a list"
        )
        parser.add_argument("--store", required=True, help="slug or name of the store")
        parser.add_argument(
            "--create", action="store_true", help="make the store when it is missing"
        )
        parser.add_argument("--content-type", default="document", help="a word to filter by")
        parser.add_argument(
            "--encoding", default="", help="of text files, such as gb18030, if told wrongly"
        )
        parser.add_argument("--dry-run", action="store_true", help="estimate chunks and time only")
        parser.add_argument(
            "--no-wait", action="store_true", help="leave the work to running workers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        store = self._store(options)
        encoding_name(options["encoding"])
        items = list(collect_items(paths=self._paths(options["paths"])))
        if options["dry_run"]:
            estimate = estimate_ingest(store=store, items=items, encoding=options["encoding"])
            self.stdout.write(estimate.as_text())
            return
        failed = self._ingest(store, items, options)
        if failed:
            raise CommandError(f"{failed} of the files could not be indexed; see above.")

    def _store(self, options: dict[str, Any]) -> models.Store:
        try:
            return named_store(options["store"])
        except NotFoundError:
            if not options["create"]:
                raise
            if options["dry_run"]:
                # Measured on, and never written.
                return models.Store(name=options["store"], space=ensure_space())
            return create_store(name=options["store"])

    def _paths(self, paths: list[str]) -> list[str]:
        if "-" not in paths:
            return paths
        if len(paths) > 1:
            raise CommandError("- reads a list of paths from stdin: give it alone.")
        return [line.rstrip("\n") for line in sys.stdin if line.strip()]

    def _ingest(self, store: models.Store, items: list[UploadItem], options: dict[str, Any]) -> int:
        ids: list[int] = []
        n_refused = 0
        for item in items:
            try:
                ids.append(self._upload(store, item, options))
            except RAGError as error:
                n_refused += 1
                self.stderr.write(f"{item.name}: {error}")
        ids = list(dict.fromkeys(ids))
        if options["no_wait"]:
            self.stdout.write(f"{len(ids)} files queued.")
            return n_refused
        return n_refused + index_with_progress(self, ids)

    def _upload(self, store: models.Store, item: UploadItem, options: dict[str, Any]) -> int:
        facts = {name: options[name] for name in ("content_type", "encoding")}
        with item.open() as content:
            uploaded = upload_file(store=store, name=item.name, content=content, **facts)
        if not uploaded.is_new:
            self.stdout.write(
                f"{item.name}: the same bytes are already there as “{uploaded.file.name}”."
            )
        return int(uploaded.file.pk)
