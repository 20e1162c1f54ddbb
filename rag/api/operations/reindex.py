"""Reindex API: start, list, follow and steer runs; their schemas."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext
from ninja import Router, Schema
from pydantic import ConfigDict, Field

from rag import models
from rag.api.http.authentication import require_caller
from rag.api.http.schemas import PROBLEMS, Problem
from rag.core.errors import ConflictError, RAGError
from rag.services.reindex import (
    ReindexOptions,
    cancel_reindex,
    drop_old_space,
    estimate_reindex,
    find_reindex,
    force_swap,
    queue_reindex,
    resume_reindex,
    roll_back_space,
    start_reindex,
    swap_space,
)
from rag.services.search import files_matching_metadata
from rag.services.stores import find_stores

_Name = Annotated[str, Field(min_length=1, max_length=512)]


class ReindexBody(Schema):
    """What is made anew of which store; with `model` the store moves to that embedding model."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"store": "manuals", "what": "lexical"}]},
    )

    store: _Name
    what: Literal["parse", "chunks", "embeddings", "lexical", "all"] = "parse"
    files: list[int] | None = Field(None, max_length=10_000, description="Unset: all files.")
    filter: str = Field("", max_length=2000, description='Files by metadata, as `lang = "zh"`.')
    stale_only: bool = Field(False, description="Only what would become otherwise.")
    model: str = Field("", max_length=200, description="provider:model; for embeddings.")
    workers: int | None = Field(
        None,
        ge=1,
        le=32,
        description="Batches embedded at a time, processes that cut words. Unset: 1 and all cores.",
    )
    per_second: float = Field(0, ge=0, description="Maximum chunks a second; 0: no limit.")
    margin: float = Field(0.01, ge=0, le=1, description="How much nDCG@10 may fall.")
    swap: bool = Field(True, description="False: build and judge only.")
    force: bool = Field(False, description="Swap whatever the gate says; recorded.")
    dry_run: bool = Field(False, description="Tell what it would cost, and do nothing.")


class EstimateOut(Schema):
    """What a run would cost; null where it cannot be known before."""

    n_files: int
    n_chunks: int
    n_tokens: int
    seconds: float | None
    cost: float | None
    currency: str
    disk_bytes: int


class RunOut(Schema):
    """A run: how far it is, how it ended, and what the quality gate saw."""

    id: int
    store: str
    what: str
    state: str
    stage: str
    model: str
    n_total: int
    n_done: int
    n_failed: int
    left_s: float | None
    report: dict[str, Any]
    error: str
    created_at: datetime
    started_at: datetime | None
    swapped_at: datetime | None
    ended_at: datetime | None


class StartedOut(Schema):
    """A run that was queued, or what it would cost."""

    run: RunOut | None = None
    is_new: bool = False
    estimate: EstimateOut | None = None


Deed = Literal["cancel", "resume", "swap", "force", "rollback", "retire"]
router = Router(tags=["reindex"])
_PROBLEMS = {**PROBLEMS, 409: Problem}
MAX_RUNS = 100


@router.post("", response={200: StartedOut, 202: StartedOut, **_PROBLEMS}, summary="Index anew")
def start(request: HttpRequest, body: ReindexBody) -> tuple[int, dict[str, Any]]:
    """Queue a run and return it; the same order twice is one run. `dry_run` returns its cost."""
    caller = require_caller(request, "write", "rag.change_store")
    store = find_stores(names=[body.store], scope=caller.scope)[0]
    store.require_editable(caller.scope)
    file_ids = _files(store, body)
    if body.dry_run:
        told = estimate_reindex(
            store=store,
            what=body.what,
            file_ids=file_ids,
            model=body.model,
            only_stale=body.stale_only,
        )
        return 200, {"estimate": EstimateOut.from_orm(told)}
    run, is_new = start_reindex(
        scope=caller.scope,
        store=store,
        what=body.what,
        file_ids=file_ids,
        model=body.model,
        options=ReindexOptions(
            workers=body.workers,
            per_second=body.per_second,
            margin=body.margin,
            is_forced=body.force,
            is_swapped=body.swap,
            only_stale=body.stale_only,
        ),
    )
    queue_reindex(run_id=run.pk)
    return 202, {"run": _serialize(run), "is_new": is_new}


@router.get("", response={200: list[RunOut], **_PROBLEMS}, summary="Runs, the newest first")
def runs(request: HttpRequest, store: str = "") -> list[RunOut]:
    """Return the last 100 runs of the stores that the caller may change, or of one of them."""
    caller = require_caller(request, "read")
    rows = models.ReindexRun.objects.readable(caller.scope).select_related("store", "target")
    if store:
        rows = rows.filter(store__in=find_stores(names=[store], scope=caller.scope))
    return [_serialize(run) for run in rows[:MAX_RUNS]]


@router.get("/{int:run_id}", response={200: RunOut, **_PROBLEMS}, summary="How far a run is")
def progress(request: HttpRequest, run_id: int) -> RunOut:
    """Return a run as it is now."""
    return _serialize(find_reindex(scope=require_caller(request, "read").scope, run_id=run_id))


@router.post("/{int:run_id}/{deed}", response={200: RunOut, **_PROBLEMS}, summary="Steer a run")
def steer(request: HttpRequest, run_id: int, deed: Deed) -> RunOut:
    """`cancel`, `resume`, and for a move `swap`, `force`, `rollback` or `retire`.

    `retire` gives the old space up ten minutes after the swap at the earliest.
    """
    caller = require_caller(request, "write", "rag.change_store")
    deeds: dict[str, Callable[[models.ReindexRun], Any]] = {
        "cancel": lambda run: cancel_reindex(run=run),
        "resume": lambda run: queue_reindex(run_id=resume_reindex(run=run).pk),
        "swap": lambda run: swap_space(run=_not_refused(run)),
        "force": lambda run: force_swap(run=run, by=caller.user),
        "rollback": lambda run: roll_back_space(run=run),
        "retire": lambda run: drop_old_space(run=run),
    }
    run = find_reindex(scope=caller.scope, run_id=run_id)
    deeds[deed](run)
    return _serialize(find_reindex(scope=caller.scope, run_id=run_id))


def _not_refused(run: models.ReindexRun) -> models.ReindexRun:
    if run.state == models.ReindexRun.State.REFUSED:
        why = RAGError.from_dict(run.error or {})
        raise ConflictError(why.message, hint=why.hint, **why.params)
    return run


def _files(store: models.Store, body: ReindexBody) -> list[int] | None:
    filtered = files_matching_metadata(text=body.filter, stores=[store])
    kept = None if filtered is None else set(filtered.file_ids)
    if body.files is None:
        return None if kept is None else sorted(kept)
    known = set(store.files.filter(pk__in=body.files).values_list("pk", flat=True))
    return sorted(known if kept is None else known & kept)


def _serialize(run: models.ReindexRun) -> RunOut:
    left_s = None
    if run.state in run.BUSY and run.started_at and run.n_done:
        took_s = (timezone.now() - run.started_at).total_seconds()
        left_s = took_s / run.n_done * max(0, run.n_total - run.n_done)
    error = RAGError.from_dict(run.error).localized(gettext) if run.error else ""
    return RunOut(
        id=run.pk,
        store=run.store.slug,
        what=run.what,
        state=run.state,
        stage=run.stage,
        model=str(run.target or run.model),
        n_total=run.n_total,
        n_done=run.n_done,
        n_failed=run.n_failed,
        left_s=left_s,
        report=run.report,
        error=error,
        created_at=run.created_at,
        started_at=run.started_at,
        swapped_at=run.swapped_at,
        ended_at=run.ended_at,
    )
