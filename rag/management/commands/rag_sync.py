"""Let a store follow a folder or prefix: ``rag_sync ORIGIN --store S [--dry-run] [--force]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from rag.core.access import Scope
from rag.management.progress import index_with_progress
from rag.management.rag_command import RagCommand, named_store
from rag.services.files import SyncPlan, open_origin, preview_sync, sync_files


class Command(RagCommand):
    """Bring a store to what a folder or a prefix of an object store holds, by the hashes of its
    files: new, changed, renamed and deleted ones. Other files of the store are left alone.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "origin", help="a folder, with all folders in it, or s3://bucket/prefix"
        )
        parser.add_argument("--store", required=True, help="slug or name of the store")
        parser.add_argument(
            "--label", default="", help="names the origin in the store; default: its own name"
        )
        parser.add_argument("--dry-run", action="store_true", help="tell what would be done")
        parser.add_argument(
            "--force", action="store_true", help="delete even more than a quarter of the files"
        )
        parser.add_argument(
            "--no-wait", action="store_true", help="leave the indexing to running workers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        store = named_store(options["store"])
        origin = open_origin(address=options["origin"])
        label = options["label"] or origin.name
        if options["dry_run"]:
            self._print_plan(preview_sync(store=store, origin=origin, label=label))
            return
        synced = sync_files(
            scope=Scope.operator(),
            store=store,
            origin=origin,
            label=label,
            is_forced=options["force"],
            on_step=self.stdout.write,
        )
        self._print_summary(synced.plan)
        ids = list(synced.queued)
        if ids and not options["no_wait"] and (failed := index_with_progress(self, ids)):
            raise CommandError(f"{failed} of the files could not be indexed; see above.")
        for reason in synced.failed:
            self.stderr.write(reason)
        if synced.failed:
            raise CommandError(f"{len(synced.failed)} files could not be brought in; see above.")

    def _print_plan(self, plan: SyncPlan) -> None:
        lines = [
            *(f"new: {path}" for path in plan.new),
            *(f"changed: {path}" for path in plan.changed),
            *(f"renamed: {known.path} → {path}" for path, known in plan.renamed.items()),
            *(f"deleted: {known.path}" for known in plan.deleted),
            *(f"left as it is: {path}: {reason}" for path, reason in plan.unread.items()),
        ]
        for line in lines:
            self.stdout.write(line)
        self._print_summary(plan)

    def _print_summary(self, plan: SyncPlan) -> None:
        for path, first in plan.duplicates.items():
            self.stdout.write(f"the same bytes as {first}: {path}")
        self.stdout.write(
            f"{len(plan.new)} new, {len(plan.changed)} changed, {len(plan.renamed)} renamed,"
            f" {len(plan.deleted)} deleted, {plan.n_same} the same."
        )
