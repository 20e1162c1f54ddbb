"""Feed the search engine beside Postgres: ``rag_feed [--all] [--stop] [--no-wait]``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from tqdm import tqdm

from rag.management.rag_command import RagCommand
from rag.providers.postgres.outbox.rows import outbox_state
from rag.services.index import drain_outbox, start_outbox, stop_outbox


class Command(RagCommand):
    """Feed Milvus with all chunks the first time, and then with what has changed.

    Workers do the latter too, every few seconds; searches go on meanwhile.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="feed every chunk again")
        parser.add_argument("--stop", action="store_true", help="note no changes any more")
        parser.add_argument(
            "--no-wait", action="store_true", help="leave the feeding to running workers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["stop"]:
            n = stop_outbox()
            self.stdout.write(f"Stopped; {n} changes were not fed.")
            return
        start_outbox(everything=options["all"])
        if not options["no_wait"]:
            with tqdm(total=outbox_state().n_waiting, unit="change", file=sys.stderr) as bar:
                drain_outbox(budget_s=float("inf"), is_waiting=True, on_batch=bar.update)
        state = outbox_state()
        self.stdout.write(f"{state.n_waiting} changes wait, the oldest for {state.lag_s:.0f} s.")
