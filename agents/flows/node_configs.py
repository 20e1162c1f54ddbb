"""What each type of node may be told. In: the ``config`` of a node. Out: typed values."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_KEY = r"^[^\W\d]\w{0,63}$"


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
    installation's own. ``output_schema`` is the JSON schema that the answer must have."""

    prompt: str
    model: ModelConfig | None = None
    tools: list[str] = []
    output_schema: dict[str, Any] | None = None
    context_tokens: int = Field(default=4000, ge=100, le=1_000_000)


class DataSourceConfig(BaseModel):
    """One source of a RAG node; whatever else is given are the options of its plugin.

    ``depends_on`` names sources of the same node whose results are its parameters; ``timeout``
    and ``cache_ttl`` are in seconds.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str
    name: str = ""
    depends_on: list[str] = []
    timeout: float = Field(default=30, gt=0, le=600)
    retries: int = Field(default=0, ge=0, le=5)
    cache_ttl: int = Field(default=0, ge=0, le=86_400)
    on_error: Literal["continue", "fail"] = "continue"

    @field_validator("depends_on", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value or []

    @property
    def key(self) -> str:
        """Return the name that the results are filed under."""
        return self.name or self.type

    @property
    def options(self) -> dict[str, Any]:
        """Return what the plugin is told."""
        return dict(self.model_extra or {})


class RagNodeConfig(_Strict):
    """A node that asks several sources. ``query`` is a template; empty: the user's message."""

    data_sources: list[DataSourceConfig] = Field(min_length=1, max_length=20)
    query: str = ""
    query_strategy: Literal["parallel", "sequential"] = "parallel"
    result_format: Literal["structured", "raw"] = "structured"
    merge_strategy: Literal["append", "replace"] = "append"
    result_key: str = Field(default="rag_results", pattern=_KEY)
    max_tokens: int = Field(default=8000, ge=100, le=1_000_000)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        names = [source.key for source in self.data_sources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two data sources are called “{name}”: give each its own name")
        done: set[str] = set()
        waiting = {source.key: set(source.depends_on) for source in self.data_sources}
        for name, needed in waiting.items():
            unknown = sorted(needed - set(names))
            if unknown:
                raise ValueError(
                    f"“{name}” depends on “{unknown[0]}”, which is not among {', '.join(names)}"
                )
        if any(waiting.values()) and self.query_strategy == "parallel":
            raise ValueError("depends_on needs query_strategy: sequential")
        while ready := [name for name, needed in waiting.items() if needed <= done]:
            done.update(ready)
            waiting = {name: needed for name, needed in waiting.items() if name not in done}
        if waiting:
            raise ValueError(f"the data sources {', '.join(waiting)} depend on each other")
        return self


class HumanReviewConfig(_Strict):
    """A node that waits for a person. The decision lands in ``edges_var`` under ``result_key``."""

    message: str = ""
    decisions: list[str] = Field(default=["approve", "reject"], min_length=1, max_length=20)
    result_key: str = Field(default="review_decision", pattern=_KEY)
