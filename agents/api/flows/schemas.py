"""Schemas of flow runs: requests, and the summary of a run."""

from __future__ import annotations

from typing import Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

MAX_WAIT_S = 600


class StreamBody(Schema):
    """A message for a flow, and what else its run is given."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"message": "How often is the pump serviced?"},
                {"message": "Prices?", "given": {"region": "north"}},
            ]
        },
    )

    message: str = Field(description="What the person says.")
    given: dict[str, Any] = Field(
        default_factory=dict,
        description="The flow's inputs, and fields of its state such as history_messages; "
        "token_id (for whom) is for editors.",
    )
    version: int | None = Field(
        None, ge=1, description="A version's number, for editors; else the active one."
    )
    model: str = Field(
        "", max_length=300, description="provider:model in place of the flow's own, for editors."
    )


class RunBody(StreamBody):
    """The same, for an answer in one piece."""

    wait_s: float = Field(
        60,
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the end; then the answer is 202 and the run goes on.",
    )


class ResumeBody(Schema):
    """How a run goes on: with a decision where it waits, without one where it failed."""

    model_config = ConfigDict(extra="forbid")

    decision: str = Field("", max_length=200, description="One of the review's decisions.")
    node: str = Field("", max_length=64, description="Whose review; needed where several wait.")
    wait_s: float = Field(60, ge=0, le=MAX_WAIT_S)


class ReplayBody(Schema):
    """From where a past run is done once more."""

    model_config = ConfigDict(extra="forbid")

    from_node: str = Field(max_length=64, description="The first node that runs anew.")
    answers: Literal["fresh", "recorded"] = Field(
        "fresh", description="recorded: models are not asked where the run has their answer."
    )
    wait_s: float = Field(60, ge=0, le=MAX_WAIT_S)


class FlowNodeOut(Schema):
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


class FlowRunOut(Schema):
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
    nodes: list[FlowNodeOut]
