"""The shapes of reindex runs. In: JSON, checked by pydantic. Out: JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

_Name = Annotated[str, Field(min_length=1, max_length=512)]


class ReindexBody(Schema):
    """What is made anew of which store; with `model` the store moves to that embedding model."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"store": "manuals", "what": "lexical"}]},
    )

    store: _Name
    what: Literal["parse", "chunks", "embeddings", "lexical", "all"] = "parse"
    files: list[int] | None = Field(None, max_length=10_000, description="Unset: all files.")
    filter: str = Field("", max_length=2000, description='Files by metadata, as `lang = "zh"`.')
    stale_only: bool = Field(False, description="Only what would become otherwise.")
    model: str = Field("", max_length=200, description="provider:model; for embeddings.")
    workers: int | None = Field(
        None, ge=1, le=32,
        description="Batches embedded at a time, processes that cut words. Unset: 1 and all cores.",
    )  # fmt: skip
    per_second: float = Field(0, ge=0, description="Most chunks a second; 0: no limit.")
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
