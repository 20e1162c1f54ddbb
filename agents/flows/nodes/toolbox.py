"""Toolbox of a node: the tools that a model may call there, and each call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.core.cited_answers import number_of, serialize_sources
from agents.core.nodes import NodeRun
from agents.core.prompts import fill_prompt, language_of, prompt_file
from agents.core.source_configs import McpServerConfig, SourceToolConfig, ToolConfig
from agents.core.tool_calls import example_call
from agents.flows.definition.source_results import hits_of, shape_results, tool_hits
from agents.flows.nodes.rag import ask_sources
from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    ProviderError,
    RAGError,
    UnknownNameError,
)
from rag.core.tools import ToolSpec
from rag.core.types import ToolUse

MAX_RESULT_CHARACTERS = 20_000
_QUESTION: Mapping[str, Any] = {
    "type": "object",
    "required": ["query"],
    "properties": {"query": {"type": "string", "description": "What to look for."}},
}


class Toolbox:
    """The tools of one visit; ``found`` keeps what its sources found, by their names."""

    def __init__(
        self, tools: Sequence[ToolConfig], run: NodeRun, values: Mapping[str, Any]
    ) -> None:
        self._run, self._values = run, values
        self._sources = {one.name: one for one in tools if isinstance(one, SourceToolConfig)}
        self._servers = {
            name: one for one in tools if isinstance(one, McpServerConfig) for name in one.names
        }
        self._offered: dict[str, ToolSpec] = {}
        names = [_names(tool) for tool in tools]
        self.names = tuple(name for each in names for name in each)
        self.found: dict[str, list[dict[str, Any]]] = {}

    async def load(self) -> None:
        """Ask the MCP servers what their tools are; raise ProviderError."""
        for server in {one.name: one for one in self._servers.values()}.values():
            self._offered |= {spec.name: spec for spec in await self._run.mcp_tools(server)}

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools as a model is told of them; raise UnknownNameError."""
        return tuple(map(self._spec, self.names))

    def prompt(self, prompt: str) -> str:
        """Return what a model is told that takes no tools, in the language of its ``prompt``."""
        specs = self.specs()
        lines = [
            f"- {spec.name}: {spec.description} {json.dumps(spec.parameters, ensure_ascii=False)}"
            for spec in specs
        ]
        rules = prompt_file(f"use_tools_{language_of(prompt)}")
        return fill_prompt(rules, {"example": example_call(specs[0])}) + "\n".join(lines)

    async def call(self, asked: ToolUse) -> str:
        """Return a tool's answer as a text for the model; what failed is an answer too.

        Raises ConfigurationError, and ProviderError of a source with ``on_error: fail``.
        """
        name, source = asked.name, self._sources.get(asked.name)
        try:
            if asked.fault:
                raise InvalidInputError(
                    "A call cannot be read: {reason}",
                    hint="Send a JSON object.",
                    reason=asked.fault,
                )
            if name not in self.names:
                raise UnknownNameError("tool", name, self.names)
            if source:
                result = await self._ask(source, asked.arguments)
            elif server := self._servers.get(name):
                result = await self._run.call_mcp(server, name, asked.arguments)
            else:
                result = await self._run.call_tool(name, asked.arguments)
        except ConfigurationError:
            raise
        except RAGError as error:
            if source and source.on_error == "fail" and isinstance(error, ProviderError):
                raise
            # A model can mend wrong arguments, or answer without the tool.
            result = {"error": str(error)}
            await self._run.emit(
                "tool", {"tool": name, "arguments": asked.arguments, "error": error.as_dict()}
            )
        text = json.dumps(result, ensure_ascii=False)
        return f"{name}: {text[:MAX_RESULT_CHARACTERS]}{self._cited_as(name, result)}"

    def _cited_as(self, name: str, result: Mapping[str, Any]) -> str:
        """Return by which numbers the model cites what a tool found or worked out."""
        hits = tool_hits(name, result)
        ids = dict.fromkeys(filter(None, map(self._run.passages.doc_id, hits)))
        marks = ", ".join(f"[{number_of(one)}]" for one in ids)
        return f"\nIts results are cited as {marks}, in their order." if marks else ""

    def _spec(self, name: str) -> ToolSpec:
        source = self._sources.get(name)
        if name in self._servers:
            return self._offered[name]
        if source is None:
            return self._run.tool_spec(name)
        return ToolSpec(name, source.description, _QUESTION)

    async def _ask(self, source: SourceToolConfig, arguments: Mapping[str, Any]) -> dict[str, Any]:
        text = arguments.get("query")
        if not isinstance(text, str) or not text.strip() or arguments.keys() != {"query"}:
            raise InvalidInputError(
                "The tool {name} takes a text as “query” and nothing else.", name=source.name
            )
        values = {**self._values, "user_query": text}
        (outcome,) = await ask_sources(self._run, [source], text, values)
        if outcome.error is not None:
            raise ProviderError(
                "The source “{name}” failed: {reason}", name=source.name, reason=outcome.message
            ) from outcome.error
        results = shape_results(outcome.hits, "structured")
        self.found[source.name] = [*self.found.get(source.name, []), *results]
        passages = self._run.passages.number(hits_of(source.name, results, outcome.hits))
        event = {"tool": source.name, "arguments": {"query": text}, "answer": {"results": results}}
        more = {
            "duration_ms": round(outcome.duration_ms, 1),
            "passages": serialize_sources(passages),
        }
        await self._run.emit("tool", {**event, **more})
        return {"results": results}


def _names(tool: ToolConfig) -> list[str]:
    if isinstance(tool, McpServerConfig):
        return tool.names
    return [tool if isinstance(tool, str) else tool.name]
