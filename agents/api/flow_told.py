"""The shape of what is told of a run. In: a service's summary. Out: JSON."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import Field


class NodeTold(Schema):
    """One visit to a node. `status`: running, waiting, done, failed, or ended before it was."""

    node: str
    visit: int
    status: str
    started_at: str | None
    duration_ms: float | None
    input_tokens: int
    output_tokens: int
    models: list[str]
    n_tools: int = Field(description="Calls of tools.")
    n_results: int | None = Field(description="What its sources found; null where none was asked.")
    source_errors: dict[str, str]
    source_faults: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="The same as templates: message, hint, params."
    )
    route: dict[str, Any] | None = Field(
        description="targets, condition; missing variables and mistakes that made it false."
    )
    error: dict[str, Any] | None
    variables: dict[str, Any] = {}


class RunTold(Schema):
    """How a run stands. What it was told and found is null for all but its user and operators."""

    key: str
    flow: str
    version: int
    status: str = Field(description="running, paused, done, error or cancelled")
    message: str | None
    given: dict[str, Any] | None
    answer: str | None
    variables: dict[str, Any] | None
    reviews: list[dict[str, Any]] = Field(description="node, visit, message, decisions")
    error: dict[str, Any] | None = Field(description="code, message, hint, params")
    model: str
    replay_of: str | None
    has_recorded_answers: bool
    n_steps: int
    input_tokens: int
    output_tokens: int
    started_at: str
    ended_at: str | None
    duration_ms: float | None
    nodes: list[NodeTold]
