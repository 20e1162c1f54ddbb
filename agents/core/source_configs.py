"""Configuration of nodes that query data sources, validated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from agents.core.prompts import placeholders
from agents.core.state import FIELDS

# Types of sources that search by vectors.
VECTOR_SOURCES = frozenset({"vector_store", "faiss", "chroma", "gemini_file_search"})


# The options of our own sources in which {name} stands for a value.
_TEMPLATES = {"database": ("query_template",), "api": ("endpoint", "params", "headers", "body")}


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts of JSON, wherever they lie, keys apart."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _free(key: str) -> str:
    if key in FIELDS and key != "rag_results":
        raise ValueError(f"“{key}” is a field of the state that holds something else")
    return key


# Under which name in the state a node's results are.
ResultKey = Annotated[str, Field(pattern=r"^[^\W\d]\w{0,63}$"), AfterValidator(_free)]


class DataSourceConfig(BaseModel):
    """One source of a RAG node; whatever else is given are the options of its plugin.

    ``depends_on`` names sources of the same node whose results are its parameters; ``timeout``
    and ``cache_ttl`` are in seconds. For as long as results are kept they may be older than the
    source, also where it has deleted something.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    # The mark is for the schema of flows, which adds the options of each type.
    type: Annotated[str, Field(json_schema_extra={"x-source": True})]
    name: str = ""
    depends_on: list[str] = []
    timeout: float = Field(default=30, gt=0, le=600)
    retries: int = Field(default=0, ge=0, le=5)
    cache_ttl: int = Field(default=0, ge=0, le=86_400)
    on_error: Literal["continue", "fail"] = "continue"

    @field_validator("depends_on", mode="before", json_schema_input_type=str | list[str])
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

    def placeholders(self) -> Iterator[str]:
        """Yield the names that stand for values in the options of our own sources."""
        templates = [self.options.get(name) for name in _TEMPLATES.get(self.type, ())]
        yield from (name for text in texts_in(templates) for name in placeholders(text))


class SourceToolConfig(DataSourceConfig):
    """A data source that a model may ask by itself; ``description`` tells it what it finds."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    description: str = Field(min_length=1, max_length=2000)
    depends_on: list[str] = Field(default=[], max_length=0)


_SEPARATOR = "__"


class McpServerConfig(BaseModel):
    """An external MCP server: ``mcp`` is its address, ``tools`` are those that may be called.

    ``secret`` names one of the installation, sent as a bearer token to hosts that it is meant for;
    ``timeout`` is in seconds for a call.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mcp: str = Field(pattern=r"^https?://[\w.:\[\]-]+(/[^\s{}]*)?$", max_length=500)
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,19}$")
    tools: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,42}$")]] = Field(
        min_length=1, max_length=50
    )
    secret: str = ""
    timeout: float = Field(default=30, gt=0, le=300)

    @property
    def host(self) -> str:
        """Return the host that is called."""
        return self.mcp.partition("://")[2].partition("/")[0]

    @property
    def names(self) -> list[str]:
        """Return its tools as models call them."""
        return list(map(self.name_of, self.tools))

    def name_of(self, tool: str) -> str:
        """Return the name by which models call a tool."""
        return f"{self.name}{_SEPARATOR}{tool}"

    def tool_of(self, name: str) -> str:
        """Return the server's own name of a tool."""
        return name.removeprefix(f"{self.name}{_SEPARATOR}")


def _kind_of_tool(value: Any) -> str:
    if isinstance(value, str):
        return "str"
    is_server = isinstance(value, McpServerConfig) or (isinstance(value, dict) and "mcp" in value)
    return "McpServerConfig" if is_server else "SourceToolConfig"


# A tool plugin by its name, a data source that a model may ask, or a server with its tools.
ToolConfig = Annotated[
    Annotated[str, Field(json_schema_extra={"x-tool": True}), Tag("str")]
    | Annotated[SourceToolConfig, Tag("SourceToolConfig")]
    | Annotated[McpServerConfig, Tag("McpServerConfig")],
    Discriminator(_kind_of_tool),
]


class RagNodeConfig(BaseModel):
    """A node that asks several sources. ``query`` is a template; empty: the user's message."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_sources: list[DataSourceConfig] = Field(min_length=1, max_length=20)
    query: str = ""
    query_strategy: Literal["parallel", "sequential"] = "parallel"
    result_format: Literal["structured", "raw"] = "structured"
    merge_strategy: Literal["append", "replace"] = "append"
    result_key: ResultKey = "rag_results"
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


class DataQueryConfig(RagNodeConfig):
    """A node that asks sources of rows and items; sources that search by vectors are refused."""

    @field_validator("data_sources")
    @classmethod
    def _no_vectors(cls, sources: list[DataSourceConfig]) -> list[DataSourceConfig]:
        found = [source.key for source in sources if source.type in VECTOR_SOURCES]
        if found:
            raise ValueError(
                f"{', '.join(found)} searches by vectors: a data_query node takes only other "
                "sources, a rag node takes all"
            )
        return sources
