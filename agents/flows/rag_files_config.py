"""What a node that asks files may be told. In: the ``config`` of a node. Out: typed values.

The names are those of a builder's RAG node, whose data can be pasted as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agents.flows.source_configs import ResultKey

SLOTS = ("files", "files2", "files3")
_ONE = re.compile(r"\s*\{\{[^{}]+\}\}\s*")
_PATH = re.compile(r"\{\{([^{}]+)\}\}")


class InputMappingsConfig(BaseModel):
    """Templates with ``{{node.field}}``; an empty query is what the person said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


class RagFilesConfig(BaseModel):
    """A node that asks a store of files (static) or files that an earlier node gave (variable).

    ``node_id`` is a node saved by whoever runs the flow. ``timeout`` is in seconds. How files are
    cut, and the states and results of a builder, are kept and have no effect in a flow.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    timeout: float = Field(default=60, gt=0, le=600)
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
