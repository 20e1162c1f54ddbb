"""Index a store anew while it answers: ``rag_reindex --store S [--what W] [--model M]``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError
from django.db import OperationalError
from django.db.models import Q

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError
from rag.management.progress import (
    index_with_progress,
    reindex_with_progress,
    report_run,
)
from rag.management.rag_command import RagCommand, named_store, reject_unused_options
from rag.services.files import set_encoding
from rag.services.reindex import (
    IN_TURN,
    ReindexOptions,
    cancel_reindex,
    estimate_reindex,
    queue_reindex,
    resume_reindex,
    run_reindex,
    start_reindex,
)
from rag.services.search import files_matching_metadata
from rag.stages.detect.decode import encoding_name

OPERATOR = Scope.operator()
Whats = models.ReindexRun.What
# What only a new run, and what only a move to another model can be told.
_OF_ORDER = (
    "file",
    "filter",
    "stale_only",
    "what",
    "fresh",
    "model",
    "encoding",
    "workers",
    "per_second",
)
_OF_MOVE = ("margin", "data", "force", "no_swap")


class Command(RagCommand):
    """Make a store's texts, chunks, vectors or words anew while it answers.

    With --model the store moves to another embedding model: see rag_move for what follows.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--store", required=True, help="slug or name of the store")
        add("--file", action="append", default=[], help="id or name of one file")
        add("--filter", default="", help="files by their metadata, such as 'lang = \"zh\"'")
        add("--stale-only", action="store_true", help="only what would become otherwise")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--what", choices=Whats.values, help="what is made anew; default: parse")
        what.add_argument("--fresh", action="store_true", help="the same as --what all")
        add("--model", default="", help="provider:model to move the store's vectors to")
        add("--encoding", help="read the named text files by this; auto tells it from the bytes")
        action = parser.add_mutually_exclusive_group()
        action.add_argument(
            "--dry-run", action="store_true", help="tell chunks, tokens, time, money and disk"
        )
        action.add_argument(
            "--resume", action="store_true", help="go on with a run that failed or died"
        )
        action.add_argument(
            "--status", action="store_true", help="tell how far the store's runs are"
        )
        action.add_argument(
            "--cancel", action="store_true", help="stop the store's run that is under way"
        )
        add("--workers", type=int, help="batches that are embedded at a time; default 1")
        add("--per-second", type=float, help="most chunks a second; default 0: no limit")
        add("--margin", type=float, help="how much nDCG@10 may fall; default 0.01")
        add("--data", default="", help="folder with judged questions to compare both models on")
        add("--force", action="store_true", help="swap whatever the gate says; recorded")
        add("--no-swap", action="store_true", help="build and judge; rag_move swaps")
        add("--no-wait", action="store_true", help="leave the work to running workers")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(named_store(options["store"]), options)
        except OperationalError as error:
            if "another process" not in str(error):
                raise
            raise CommandError(f"{error}; see --status.") from error

    def _handle(self, store: models.Store, options: dict[str, Any]) -> None:
        what = _what(options)
        if options["status"] or options["cancel"] or options["resume"]:
            reject_unused_options(options, (*_OF_ORDER, *_OF_MOVE), with_what="a new run")
            self._existing_run(store, options)
            return
        _reject_unused(what, options)
        encoding = _encoding(options)
        file_ids = _chosen_files(store, options["file"], options["filter"])
        if options["dry_run"]:
            self._estimate(store, what, file_ids, options)
            return
        if encoding is not None:
            for file in store.files.light().filter(pk__in=file_ids or ()):
                set_encoding(scope=OPERATOR, file=file, encoding=encoding)
        run, is_new = start_reindex(
            scope=OPERATOR,
            store=store,
            what=what,
            file_ids=file_ids,
            model=options["model"],
            options=_run_options(options),
        )
        if not is_new:
            self.stderr.write(f"Run {run.pk} is the same order; it goes on.")
        self._work(run, options["no_wait"])

    def _work(self, run: models.ReindexRun, is_left: bool) -> None:
        if run.what in IN_TURN:
            if is_left:
                queue_reindex(run_id=run.pk)
                self.stdout.write(f"Run {run.pk} is queued.")
                return
            report_run(self, reindex_with_progress(resume_reindex(run=run)))
            return
        run_reindex(run_id=run.pk)
        run.refresh_from_db()
        ids = run.file_ids or []
        if is_left:
            queue_reindex(run_id=run.pk)
            self.stdout.write(f"{len(ids)} files queued.")
            return
        failed = index_with_progress(self, ids)
        run_reindex(run_id=run.pk)
        if failed:
            raise CommandError(f"{failed} of the files could not be indexed; see above.")

    def _existing_run(self, store: models.Store, options: dict[str, Any]) -> None:
        runs = models.ReindexRun.objects.filter(store=store, state__in=models.ReindexRun.OPEN)
        found = list(runs.select_related("store", "source", "target")) or None
        if options["status"]:
            found = found or list(models.ReindexRun.objects.filter(store=store)[:1])
            for run in found:
                report_run(self, run)
            if not found:
                self.stdout.write(f"No run of “{store.name}” is known.")
            return
        left = [r for r in found or () if r.state in (*models.ReindexRun.BUSY, "failed")]
        if not left:
            raise NotFoundError("No run of “{name}” is under way.", name=store.name)
        for run in left:
            if options["cancel"]:
                cancel_reindex(run=run)
                self.stdout.write(f"Run {run.pk} is cancelled.")
            else:
                self._work(resume_reindex(run=run), options["no_wait"])

    def _estimate(
        self, store: models.Store, what: str, file_ids: list[int] | None, options: dict[str, Any]
    ) -> None:
        estimate = estimate_reindex(
            store=store,
            what=what,
            file_ids=file_ids,
            model=options["model"],
            only_stale=options["stale_only"],
        )
        self.stdout.write(
            f"{estimate.n_files} files, {estimate.n_chunks} chunks, {estimate.n_tokens} tokens"
        )
        seconds, cost = estimate.seconds, estimate.cost
        time = "unknown before it runs" if seconds is None else f"about {seconds:.0f} s"
        self.stdout.write(f"time: {time}")
        money = "no price is known" if cost is None else f"{cost:.4f} {estimate.currency}"
        self.stdout.write(f"money: {money}")
        self.stdout.write(f"disk: {estimate.disk_bytes / 1e6:.1f} MB on top")


def _chosen_files(store: models.Store, names: Sequence[str], where: str) -> list[int] | None:
    """Return the ids of the named files that pass a metadata filter; None: neither is given."""
    ids: list[int] | None = None
    for name in names:
        is_id = Q(pk=int(name)) if name.isdecimal() else Q()
        found = store.files.filter(Q(name=name) | is_id if is_id else Q(name=name))
        if not found.exists():
            raise NotFoundError(
                "The store “{store}” has no file “{name}”.",
                hint="Give its name or id.",
                store=store.slug,
                name=name,
            )
        ids = [*(ids or ()), *found.values_list("pk", flat=True)]
    filtered = files_matching_metadata(text=where, stores=[store])
    if filtered is None:
        return ids
    kept = set(filtered.file_ids)
    return sorted(kept if ids is None else kept & set(ids))


def _what(options: dict[str, Any]) -> str:
    default = Whats.EMBEDDINGS if options["model"] else Whats.PARSE
    return str(options["what"] or (Whats.ALL if options["fresh"] else default))


def _reject_unused(what: str, options: dict[str, Any]) -> None:
    if options["model"]:
        reject_unused_options(options, ["stale_only"], with_what="the present model")
    else:
        reject_unused_options(options, _OF_MOVE, with_what="--model")
    if what not in IN_TURN:
        reject_unused_options(options, ["workers"], with_what="--what embeddings or lexical")
    if what not in (Whats.PARSE, Whats.ALL):
        reject_unused_options(options, ["encoding"], with_what="--what parse or all")


def _encoding(options: dict[str, Any]) -> str | None:
    if options["encoding"] is None:
        return None
    if not options["file"]:
        raise InvalidInputError("--encoding is for named files.", hint="Name them with --file.")
    return encoding_name("" if options["encoding"] == "auto" else options["encoding"])


def _run_options(options: dict[str, Any]) -> ReindexOptions:
    given = {name: options[name] for name in ("workers", "per_second", "margin")}
    return ReindexOptions(
        data=options["data"],
        is_forced=options["force"],
        is_swapped=not options["no_swap"],
        only_stale=options["stale_only"],
        **{name: value for name, value in given.items() if value is not None},
    )
