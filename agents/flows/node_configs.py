"""What each type of node may be told. In: the ``config`` of a node. Out: typed values."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agents.core.state import IDENTITY
from agents.flows.source_configs import SourceToolConfig

_KEY = r"^[^\W\d]\w{0,63}$"
MAX_DECISION = 200


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ThinkingConfig(_Strict):
    """Whether a model thinks before it answers, and for how many tokens at most."""

    type: Literal["enabled", "disabled", "auto"] = "auto"
    budget_tokens: int | None = Field(default=None, ge=0)


class ModelConfig(_Strict):
    """The model of a node; ``timeout`` is in seconds for a whole answer."""

    provider: str
    name: str
    temperature: float = Field(default=0.7, ge=0, le=2)
    max_tokens: int = Field(default=2048, ge=1, le=200_000)
    thinking: ThinkingConfig | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    timeout: float = Field(default=60, gt=0, le=7200)

    @property
    def id(self) -> str:
        """Return ``provider:model``."""
        return f"{self.provider}:{self.name}"


class AgentNodeConfig(_Strict):
    """A node that asks a model. ``prompt`` is a file beside the flow; no ``model``: the
    installation's own. ``output_schema`` is the JSON schema that the answer must have. ``tools``
    are names of tool plugins, and data sources with a description."""

    prompt: str
    model: ModelConfig | None = None
    tools: list[str | SourceToolConfig] = Field(default=[], max_length=50)
    output_schema: dict[str, Any] | None = None
    context_tokens: int = Field(default=4000, ge=100, le=1_000_000)

    @field_validator("tools")
    @classmethod
    def _named_once(cls, tools: list[str | SourceToolConfig]) -> list[str | SourceToolConfig]:
        names = [tool if isinstance(tool, str) else tool.name for tool in tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two tools are called “{name}”: give each its own name")
        return tools


class HumanReviewConfig(_Strict):
    """A node that waits for a person. The decision lands in ``edges_var`` under ``result_key``."""

    message: str = ""
    decisions: list[str] = Field(default=["approve", "reject"], min_length=1, max_length=20)
    result_key: str = Field(default="review_decision", pattern=_KEY)

    @field_validator("decisions")
    @classmethod
    def _distinct(cls, decisions: list[str]) -> list[str]:
        for decision in decisions:
            if not decision.strip() or len(decision) > MAX_DECISION:
                raise ValueError(f"a decision is 1 to {MAX_DECISION} characters")
            if decisions.count(decision) > 1:
                raise ValueError(f"the decision “{decision}” is there twice")
        return decisions

    @field_validator("result_key")
    @classmethod
    def _free(cls, key: str) -> str:
        if key in IDENTITY:
            raise ValueError(f"“{key}” says who acts and cannot be decided")
        return key
