"""Node configurations: the pydantic schema of ``config`` for each type of node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from agents.core.model_options import ModelConfig
from agents.core.model_options import StrictConfig as _Strict
from agents.core.source_configs import ResultKey, SourceToolConfig
from agents.core.state import IDENTITY

_KEY = r"^[^\W\d]\w{0,63}$"
MAX_DECISION = 200


class AgentNodeConfig(_Strict):
    """A node that asks a model. ``prompt`` is a file beside the flow; no ``model``: the
    installation's own. ``output_schema`` is the JSON schema that the answer must have. ``tools``
    are names of tool plugins, and data sources with a description. ``citation_failure`` says what
    becomes of sentences that its sources do not say: they are marked, dropped, or written anew.
    A model that fails is asked ``retries`` times more, then the ``fallback_models`` in turn; when
    all fail, ``default`` is the answer: ``response_content`` and variables."""

    prompt: str
    model: ModelConfig | None = None
    tools: list[str | SourceToolConfig] = Field(default=[], max_length=50)
    output_schema: dict[str, Any] | None = None
    context_tokens: int = Field(default=4000, ge=100, le=1_000_000)
    citation_failure: Literal["mark", "drop", "repair"] = "mark"
    retries: int = Field(default=0, ge=0, le=5)
    fallback_models: list[ModelConfig] = Field(default=[], max_length=5)
    default: dict[str, Any] | None = None

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


SLOTS = ("files", "files2", "files3")
_ONE = re.compile(r"\s*\{\{[^{}]+\}\}\s*")
_PATH = re.compile(r"\{\{([^{}]+)\}\}")


class InputMappingsConfig(_Strict):
    """Templates with ``{{node.field}}``; an empty query is what the person said."""

    query: str = ""
    files: str = ""
    files2: str = ""
    files3: str = ""

    @field_validator("query", *SLOTS)
    @classmethod
    def _closed(cls, template: str) -> str:
        rest = _PATH.sub("", template)
        if "{{" in rest or "}}" in rest:
            raise ValueError("a {{ is not closed by }}, or the other way round")
        return template

    @field_validator(*SLOTS)
    @classmethod
    def _alone(cls, template: str) -> str:
        if template.strip() and not _ONE.fullmatch(template):
            raise ValueError("files are one reference and nothing else, such as {{start.files}}")
        return template

    def paths(self) -> Iterator[tuple[str, str]]:
        """Yield each reference with the template that it stands in."""
        for name in ("query", *SLOTS):
            for path in _PATH.findall(getattr(self, name)):
                yield name, path.strip()


class RagFilesConfig(_Strict):
    """A node that asks a store of files (static) or files that an earlier node gave (variable).

    ``node_id`` is a node saved by whoever runs the flow. ``timeout`` is in seconds. How files are
    cut, and the states and results of a builder, are kept and have no effect in a flow.
    """

    label: str = "RAG"
    node_id: str = Field(default="", max_length=200)
    fileMode: Literal["static", "variable"] | None = None
    fileSearchStoreName: str = ""
    fileSearchStoreId: str = ""
    inputMappings: InputMappingsConfig = InputMappingsConfig()
    maxTokensPerChunk: int = Field(default=200, ge=50, le=500)
    maxOverlapTokens: int = Field(default=20, ge=0, le=100)
    files: list[Any] = []
    files2: list[Any] = []
    files3: list[Any] = []
    uploadStatus: Literal["idle", "uploading", "processing", "completed", "error"] = "idle"
    uploadError: str = ""
    searchQuery: str = ""
    foundDocuments: list[str] = []
    result_key: ResultKey = "rag_results"
    timeout: float = Field(default=600, gt=0, le=600)
    on_error: Literal["continue", "fail"] = "fail"
    max_tokens: int = Field(default=8000, ge=100, le=1_000_000)

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        has_files = any(getattr(self.inputMappings, slot).strip() for slot in SLOTS)
        if self.node_id:
            return self
        if self.fileMode == "variable" and not has_files:
            raise ValueError("fileMode: variable needs files in inputMappings")
        if self.fileMode == "static" and not self.fileSearchStoreName:
            raise ValueError("fileMode: static needs a fileSearchStoreName")
        if not has_files and not self.fileSearchStoreName:
            raise ValueError("needs a fileSearchStoreName, files in inputMappings, or a node_id")
        return self

    @property
    def data(self) -> dict[str, Any]:
        """Return what is said of the node itself, as JSON on the wire."""
        own = {"node_id", "result_key", "timeout", "on_error", "max_tokens"}
        told = self.model_dump(exclude=own, exclude_unset=True, exclude_none=True)
        mappings = self.inputMappings.model_dump(exclude_defaults=True)
        if not mappings.get("query", "").strip() and not self.node_id:
            mappings["query"] = "{{user_query}}"
        return {**told, "inputMappings": mappings} if mappings else told
