"""Let a store follow an origin: ``rag_sync ORIGIN --store S [--dry-run] [--force]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from rag import models
from rag.core.access import Scope
from rag.management.progress import index_with_progress
from rag.management.rag_command import RagCommand, named_store
from rag.services.connectors import SyncPlan, connection_at, run_sync, start_sync


class Command(RagCommand):
    """Bring a store to what a folder, a prefix of an object store, a website or a repository holds,
    by hashes: new, changed, renamed and deleted documents. Other files are left alone.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "origin",
            help="a folder with all folders in it, s3://bucket/prefix, https://site/start/, or"
            " git+https://host/repository",
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
        scope = Scope.operator()
        connection = connection_at(
            scope=scope, store=store, address=options["origin"], label=options["label"]
        )
        run = start_sync(
            scope=scope,
            connection=connection,
            is_queued=False,
            is_dry_run=options["dry_run"],
            is_forced=options["force"],
            trigger=models.SyncRun.Trigger.COMMAND,
        )
        synced = run_sync(run_id=run.pk, any_folder=True, on_step=self._print_step)
        if synced is None:
            raise CommandError("The sync was stopped.")
        if options["dry_run"]:
            self._print_plan(synced.plan)
            return
        self._print_summary(synced.plan)
        ids = synced.queued
        if ids and not options["no_wait"] and (failed := index_with_progress(self, ids)):
            raise CommandError(f"{failed} of the files could not be indexed; see above.")
        for path, reason in synced.failed:
            self.stderr.write(f"{path}: {reason}")
        if synced.failed:
            raise CommandError(f"{len(synced.failed)} files could not be brought in; see above.")

    def _print_step(self, what: str, path: str) -> None:
        self.stdout.write(f"{what}: {path}")

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
