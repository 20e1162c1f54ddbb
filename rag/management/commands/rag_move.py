"""What follows on a move to another model: ``rag_move --store S [--swap|--rollback|…]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from rag import models
from rag.core.access import Scope
from rag.core.errors import NotFoundError, RAGError
from rag.management.run_bar import tell_run
from rag.services.reindex.move import force_run, roll_back_run, swap_run
from rag.services.reindex.move_end import cancel_run, retire_run
from rag.services.stores.lifecycle import find_stores


class Command(BaseCommand):
    """Swap, roll back, retire or cancel the move of a store; without a flag, tell where it is."""

    help = "Swap, roll back, retire or cancel a store's move to another embedding model."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--store", required=True, help="slug or name of the store")
        deed = parser.add_mutually_exclusive_group()
        deed.add_argument("--swap", action="store_true", help="stand on the new space")
        deed.add_argument("--force", action="store_true", help="the same, though it was refused")
        deed.add_argument("--rollback", action="store_true", help="stand on the old space again")
        deed.add_argument("--retire", action="store_true", help="give up the old space")
        deed.add_argument("--cancel", action="store_true", help="give up the new space")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command."""
        try:
            store = find_stores(names=[options["store"]], scope=Scope.operator())[0]
            moves = models.ReindexRun.objects.moves().select_related("store", "source", "target")
            run = moves.filter(store=store).first()
            if run is None:
                raise NotFoundError(
                    "The store “{name}” is not moving.",
                    hint="Begin with rag_reindex --model.",
                    name=store.name,
                )
            self._do(run, options)
        except RAGError as error:
            raise CommandError(str(error)) from error

    def _do(self, run: models.ReindexRun, options: dict[str, Any]) -> None:
        is_refused = run.state == models.ReindexRun.State.REFUSED
        if is_refused and not any(options[name] for name in ("force", "cancel")):
            self.stdout.write(f"Run {run.pk}: {run.what} to {run.target}: {run.state}")
            raise CommandError(
                f"{RAGError.from_dict(run.error or {})} Give --force to swap all the same,"
                " --cancel to give the new space up."
            )
        if options["swap"]:
            swap_run(run=run)
        elif options["force"]:
            force_run(run=run)
        elif options["rollback"]:
            roll_back_run(run=run)
        elif options["retire"]:
            if left_s := retire_run(run=run):
                self.stdout.write(f"The old space goes in {left_s:.0f} s; until then --rollback.")
        elif options["cancel"]:
            cancel_run(run=run)
        run.refresh_from_db()
        tell_run(self, run)
