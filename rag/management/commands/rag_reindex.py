"""Parse and embed a store's files anew: ``rag_reindex --store S [--file F]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError, RAGError
from rag.management.progress import report_files, work_with_bar
from rag.services.read_as import read_as
from rag.services.reindex import reindex
from rag.services.stores import find_stores


class Command(BaseCommand):
    """Parse and embed a store's files anew while the old revision serves."""

    help = "Parse and embed a store's files anew, by jobs, while the old revision serves."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--store", required=True, help="slug or name of the store")
        parser.add_argument("--file", action="append", default=[], help="id or name of one file")
        parser.add_argument(
            "--encoding", help="read the named text files by this; auto tells it from the bytes"
        )
        parser.add_argument("--fresh", action="store_true", help="embed unchanged chunks anew too")
        parser.add_argument(
            "--no-wait", action="store_true", help="leave the work to running workers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command."""
        try:
            store = find_stores(names=[options["store"]], scope=Scope.operator())[0]
            wanted = _file_ids(store, options["file"]) if options["file"] else None
            if options["encoding"] is not None:
                _set_encoding(store, wanted, options["encoding"])
            ids = reindex(store=store, file_ids=wanted, fresh_vectors=options["fresh"])
        except RAGError as error:
            raise CommandError(str(error)) from error
        if options["no_wait"]:
            self.stdout.write(f"{len(ids)} files queued.")
            return
        work_with_bar(ids)
        if failed := report_files(self, ids):
            raise CommandError(f"{failed} of the files could not be indexed; see above.")


def _set_encoding(store: models.Store, file_ids: list[int] | None, encoding: str) -> None:
    if file_ids is None:
        raise InvalidInputError("--encoding is for named files.", hint="Name them with --file.")
    for file in store.files.light().filter(pk__in=file_ids):
        read_as(scope=Scope.operator(), file=file, encoding=encoding.replace("auto", ""))


def _file_ids(store: models.Store, names: list[str]) -> list[int]:
    ids: list[int] = []
    for name in names:
        is_id = Q(pk=int(name)) if name.isdecimal() else Q()
        found = store.files.filter(Q(name=name) | is_id if is_id else Q(name=name))
        if not found.exists():
            raise NotFoundError(
                "The store “{store}” has no file “{name}”.", hint="Give its name or id.",
                store=store.slug, name=name,
            )  # fmt: skip
        ids += found.values_list("pk", flat=True)
    return ids
