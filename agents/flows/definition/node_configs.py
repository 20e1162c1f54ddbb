"""Node configurations: the pydantic schema of ``config`` for each type of node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from agents.core.model_options import ModelConfig, StrictConfig
from agents.core.source_configs import McpServerConfig, ResultKey, ToolConfig
from agents.core.state import IDENTITY

_KEY = r"^[^\W\d]\w{0,63}$"
MAX_DECISION = 200
# A file beside the flow, which the schema of flows marks for editors.
PromptPath = Annotated[str, Field(json_schema_extra={"x-prompt": True})]


def _settable(name: str) -> str:
    if name in IDENTITY:
        raise ValueError(f"“{name}” says who acts and cannot be set")
    return name


# The name of a variable that a node sets.
VariableName = Annotated[str, Field(pattern=_KEY), AfterValidator(_settable)]


class NodeOptions(StrictConfig):
    """What a node is told, and what its checks want to know of it without knowing its type."""

    def sets(self) -> frozenset[str]:
        """Return the variables that the node sets, whatever a model says."""
        return frozenset()

    def texts(self) -> Mapping[str, Any]:
        """Return by option the texts, alone or in lists and objects, in which {name} is filled."""
        return {}

    def hosts(self) -> frozenset[str]:
        """Return the hosts that the node calls by itself."""
        return frozenset()

    def flows(self) -> tuple[str, ...]:
        """Return the flows that the node runs."""
        return ()

    def inner(self) -> tuple[str, Any] | None:
        """Return type and options of a node that this one runs; None for none."""
        return None


def flows_of(configs: Iterable[object]) -> Iterator[str]:
    """Yield the flows that nodes run, those of nodes inside of them among them."""
    for config in configs:
        if isinstance(config, NodeOptions):
            yield from config.flows()
            inner = config.inner()
            yield from flows_of([inner[1]] if inner else [])


class AgentNodeConfig(NodeOptions):
    """A node that asks a model. ``prompt`` is a file beside the flow; no ``model``: the
    installation's own. ``output_schema`` is the JSON schema that the answer must have. ``tools``
    are names of tool plugins, data sources with a description, and MCP servers.
    ``citation_failure`` says what becomes of sentences that its sources do not say: they are
    marked, dropped, or written anew. A model that fails is asked ``retries`` times more, then the
    ``fallback_models`` in turn; when all fail, ``default`` is the answer:
    ``response_content`` and variables."""

    prompt: PromptPath
    model: ModelConfig | None = None
    tools: list[ToolConfig] = Field(default=[], max_length=50)
    output_schema: dict[str, Any] | None = None
    context_tokens: int = Field(default=4000, ge=100, le=1_000_000)
    citation_failure: Literal["mark", "drop", "repair"] = "mark"
    retries: int = Field(default=0, ge=0, le=5)
    fallback_models: list[ModelConfig] = Field(default=[], max_length=5)
    default: dict[str, Any] | None = None

    @field_validator("tools")
    @classmethod
    def _named_once(cls, tools: list[ToolConfig]) -> list[ToolConfig]:
        names = [tool if isinstance(tool, str) else tool.name for tool in tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two tools are called “{name}”: give each its own name")
        return tools

    def hosts(self) -> frozenset[str]:
        """Return the hosts of its MCP servers."""
        return frozenset(one.host for one in self.tools if isinstance(one, McpServerConfig))

    def sets(self) -> frozenset[str]:
        """Return the properties of the schema."""
        return frozenset({"parse_error", *((self.output_schema or {}).get("properties") or {})})


class HumanReviewConfig(NodeOptions):
    """A node that waits for a person. The decision lands in ``edges_var`` under ``result_key``, a
    comment under ``comment_key``. ``editable`` names variables that whoever decides may change, and
    ``response_content`` for the last text."""

    message: str = ""
    decisions: list[str] = Field(default=["approve", "reject"], min_length=1, max_length=20)
    result_key: VariableName = "review_decision"
    comment_key: VariableName = "review_comment"
    editable: list[VariableName] = Field(default=[], max_length=20)

    @field_validator("decisions")
    @classmethod
    def _distinct(cls, decisions: list[str]) -> list[str]:
        for decision in decisions:
            if not decision.strip() or len(decision) > MAX_DECISION:
                raise ValueError(f"a decision is 1 to {MAX_DECISION} characters")
            if decisions.count(decision) > 1:
                raise ValueError(f"the decision “{decision}” is there twice")
        return decisions

    def sets(self) -> frozenset[str]:
        """Return the variables of the decision."""
        return frozenset({self.result_key, self.comment_key, *self.editable})

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {"message": self.message}


SLOTS = ("files", "files2", "files3")
_ONE = re.compile(r"\s*\{\{[^{}]+\}\}\s*")
_PATH = re.compile(r"\{\{([^{}]+)\}\}")


class InputMappingsConfig(StrictConfig):
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


class RagFilesConfig(NodeOptions):
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
