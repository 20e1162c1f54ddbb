"""Compare our stores with Gemini's: ``rag_gemini_sync [--store S]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, RAGError
from rag.management.rag_command import RagCommand
from rag.services.gemini import RemoteSyncResult, gemini_file_search, sync_store
from rag.services.stores import delete_store, find_stores


class Command(RagCommand):
    """Bring the states of stores and files at Gemini to our side, and tell what differs."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--store", action="append", help="slug or name; repeatable")
        parser.add_argument(
            "--list", action="store_true", help="also list the account's stores that are not ours"
        )
        parser.add_argument(
            "--forget",
            action="store_true",
            help="delete the named stores here and leave them at Gemini, whatever it says",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command; it fails when any store could not be compared."""
        stores = self._stores(options)
        if options["forget"]:
            self._unlink(stores, options)
            return
        if not stores:
            self.stdout.write("No store of this installation is at Gemini.")
        n_failed = sum(not self._sync(store) for store in stores)
        if options["list"]:
            n_failed += not self._list()
        if n_failed:
            raise CommandError(f"{n_failed} failed; see above.")

    def _stores(self, options: dict[str, Any]) -> list[models.Store]:
        if not options["store"]:
            return list(models.Store.objects.filter(backend=models.Store.Backend.GEMINI))
        found = find_stores(names=options["store"], scope=Scope.operator())
        for store in found:
            if not store.is_remote:
                raise InvalidInputError(
                    "The store “{name}” is local: there is nothing to compare.", name=store.slug
                )
        return found

    def _unlink(self, stores: list[models.Store], options: dict[str, Any]) -> None:
        if not options["store"]:
            raise InvalidInputError("--forget is for named stores.", hint="Name them with --store.")
        for store in stores:
            delete_store(store=store, is_forgotten=True)
            self.stdout.write(f"{store.slug}: deleted here; {store.resource_name} is left there.")

    def _sync(self, store: models.Store) -> bool:
        try:
            compared = sync_store(store=store)
        except RAGError as error:
            self.stderr.write(f"{store.slug}: {error}")
            return False
        self.stdout.write(f"{store.slug}: {_summary(compared)}")
        return True

    def _list(self) -> bool:
        try:
            found = gemini_file_search().list_stores()
        except RAGError as error:
            self.stderr.write(str(error))
            return False
        ours = set(models.Store.objects.values_list("resource_name", flat=True))
        for store in found:
            if store.name not in ours:
                self.stdout.write(f"not ours: {store.name} ({store.display_name})")
        return True


def _summary(compared: RemoteSyncResult) -> str:
    parts = [
        f"{compared.n_active} active",
        f"{compared.n_pending} pending",
        f"{compared.n_failed} failed",
    ]
    if compared.n_lost:
        parts.append(f"{compared.n_lost} files are no longer there")
    if compared.n_unknown:
        parts.append(f"{compared.n_unknown} documents have no file here")
    return ", ".join(parts)
