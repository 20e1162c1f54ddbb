"""Model options: thinking, reasoning effort and response schema as a provider takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Providers of our own that have no use for options.
_PLAIN = frozenset({"extractive", "scripted"})


def model_options(
    model_id: str, model: ModelConfig | None, schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return thinking, effort and the wished form of the answer in the provider's own words.

    Every provider but our own and Gemini speaks OpenAI's protocol with ``thinking`` as Doubao,
    DeepSeek and GLM take it. Nothing is sent that the flow does not say.
    """
    provider = model_id.partition(":")[0]
    if provider in _PLAIN:
        return {}
    return _gemini(model, schema) if provider == "gemini" else _openai(model, schema)


def _gemini(model: ModelConfig | None, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if model and model.reasoning_effort:
        # It has no level below minimal.
        level = "minimal" if model.reasoning_effort == "none" else model.reasoning_effort
        options["thinking_level"] = level.upper()
    elif model and model.thinking:
        budgets = {"disabled": 0, "auto": -1, "enabled": -1}
        budget = model.thinking.budget_tokens
        is_off = model.thinking.type == "disabled"
        options["thinking_budget"] = (
            budgets[model.thinking.type] if budget is None or is_off else budget
        )
    if schema:
        options |= {"response_mime_type": "application/json", "response_json_schema": dict(schema)}
    return options


def _openai(model: ModelConfig | None, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if model and model.thinking:
        options["thinking"] = model.thinking.model_dump(exclude_none=True)
    if model and model.reasoning_effort:
        options["reasoning_effort"] = model.reasoning_effort
    if schema:
        shape = {"name": "answer", "schema": dict(schema), "strict": False}
        options["response_format"] = {"type": "json_schema", "json_schema": shape}
    return options


class StrictConfig(BaseModel):
    """A pydantic model that is frozen and refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ThinkingConfig(StrictConfig):
    """Whether a model thinks before it answers, and for how many tokens at most."""

    type: Literal["enabled", "disabled", "auto"] = "auto"
    budget_tokens: int | None = Field(default=None, ge=0)


class ModelConfig(StrictConfig):
    """The model of a node; ``timeout`` is in seconds for a whole answer, RAG_TIMEOUT_S at most."""

    provider: str
    name: str
    temperature: float = Field(default=0.7, ge=0, le=2)
    max_tokens: int = Field(default=2048, ge=1, le=200_000)
    thinking: ThinkingConfig | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    timeout: float = Field(default=7200, gt=0, le=7200)

    @model_validator(mode="before")
    @classmethod
    def _shaped(cls, value: Any) -> Any:
        if isinstance(value, dict | BaseModel):
            return value
        provider, colon, name = str(value).partition(":")
        shape = f"{{provider: {provider}, name: {name}}}" if colon else "{provider: …, name: …}"
        raise ValueError(f"“{value}” is no model: write {shape}")

    @property
    def id(self) -> str:
        """Return ``provider:model``."""
        return f"{self.provider}:{self.name}"
