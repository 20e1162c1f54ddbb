"""What follows on a move to another model: ``rag_move --store S [--swap|--rollback|…]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from rag import models
from rag.core.errors import NotFoundError, RAGError
from rag.management.progress import report_run
from rag.management.rag_command import RagCommand, named_store
from rag.services.reindex import (
    cancel_reindex,
    drop_old_space,
    force_swap,
    roll_back_space,
    swap_space,
)


class Command(RagCommand):
    """Swap, roll back, retire or cancel a store's move to another embedding model."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--store", required=True, help="slug or name of the store")
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--swap", action="store_true", help="stand on the new space")
        action.add_argument("--force", action="store_true", help="the same, though it was refused")
        action.add_argument("--rollback", action="store_true", help="stand on the old space again")
        action.add_argument("--retire", action="store_true", help="give up the old space")
        action.add_argument("--cancel", action="store_true", help="give up the new space")

    def handle(self, *args: Any, **options: Any) -> None:
        store = named_store(options["store"])
        moves = models.ReindexRun.objects.moves().select_related("store", "source", "target")
        run = moves.filter(store=store).first()
        if run is None:
            raise NotFoundError(
                "The store “{name}” is not moving.",
                hint="Begin with rag_reindex --model.",
                name=store.name,
            )
        self._apply(run, options)

    def _apply(self, run: models.ReindexRun, options: dict[str, Any]) -> None:
        is_refused = run.state == models.ReindexRun.State.REFUSED
        if is_refused and not any(options[name] for name in ("force", "cancel")):
            self.stdout.write(f"Run {run.pk}: {run.what} to {run.target}: {run.state}")
            raise CommandError(
                f"{RAGError.from_dict(run.error or {})} Give --force to swap all the same,"
                " --cancel to give the new space up."
            )
        if options["swap"]:
            swap_space(run=run)
        elif options["force"]:
            force_swap(run=run)
        elif options["rollback"]:
            roll_back_space(run=run)
        elif options["retire"]:
            if left_s := drop_old_space(run=run):
                self.stdout.write(f"The old space goes in {left_s:.0f} s; until then --rollback.")
        elif options["cancel"]:
            cancel_reindex(run=run)
        run.refresh_from_db()
        report_run(self, run)
