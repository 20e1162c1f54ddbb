"""Tools of a model in a flow: tool plugins and data sources, their specification and calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.core.nodes import NodeRun, SourceQueries
from agents.core.prompts import prompt_file
from agents.core.source_configs import SourceToolConfig
from agents.flows.definition.source_results import shape_results
from rag.core.errors import ConfigurationError, InvalidInputError, ProviderError, RAGError
from rag.core.tools import ToolSpec
from rag.services.sources import SourceCall

MAX_RESULT_CHARACTERS = 20_000
_QUESTION: Mapping[str, Any] = {
    "type": "object",
    "required": ["query"],
    "properties": {"query": {"type": "string", "description": "What to look for."}},
}


class Toolbox:
    """The tools of one visit; ``found`` keeps what its sources found, by their names."""

    def __init__(
        self, tools: Sequence[str | SourceToolConfig], run: NodeRun, values: Mapping[str, Any]
    ) -> None:
        self._run, self._values = run, values
        self._sources = {tool.name: tool for tool in tools if not isinstance(tool, str)}
        self.names = tuple(tool if isinstance(tool, str) else tool.name for tool in tools)
        self.found: dict[str, list[dict[str, Any]]] = {}

    def prompt(self) -> str:
        """Return what a model is told of its tools, empty without any; raise UnknownNameError."""
        if not self.names:
            return ""
        lines = []
        for name in self.names:
            spec = self._spec(name)
            schema = json.dumps(spec.parameters, ensure_ascii=False)
            lines.append(f"- {spec.name}: {spec.description} {schema}")
        return prompt_file("use_tools") + "\n".join(lines)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return a tool's answer as a text for the model; what failed is an answer too.

        Raises ConfigurationError, and ProviderError of a source with ``on_error: fail``.
        """
        source = self._sources.get(name)
        try:
            if source:
                result = await self._ask(source, arguments)
            else:
                result = await self._run.call_tool(name, arguments)
        except ConfigurationError:
            raise
        except RAGError as error:
            if source and source.on_error == "fail" and isinstance(error, ProviderError):
                raise
            # A model can mend wrong arguments, or answer without the tool.
            result = {"error": str(error)}
        text = json.dumps(result, ensure_ascii=False)
        return f"{name}: {text[:MAX_RESULT_CHARACTERS]}"

    def _spec(self, name: str) -> ToolSpec:
        source = self._sources.get(name)
        if source is None:
            return self._run.tool_spec(name)
        return ToolSpec(name, source.description, _QUESTION)

    async def _ask(self, source: SourceToolConfig, arguments: Mapping[str, Any]) -> dict[str, Any]:
        text = arguments.get("query")
        if not isinstance(text, str) or not text.strip() or arguments.keys() != {"query"}:
            raise InvalidInputError(
                "The tool {name} takes a text as “query” and nothing else.", name=source.name
            )
        call = SourceCall(
            name=source.name,
            plugin=source.type,
            options=source.options,
            timeout_s=source.timeout,
            retries=source.retries,
        )
        ttls = {source.name: source.cache_ttl} if source.cache_ttl else {}
        values = {**self._values, "user_query": text}
        (outcome,) = await self._run.ask_sources(SourceQueries([call], text, values, ttls))
        if outcome.error is not None:
            raise ProviderError(
                "The source “{name}” failed: {reason}", name=source.name, reason=outcome.message
            ) from outcome.error
        results = shape_results(outcome.hits, "structured")
        self.found[source.name] = [*self.found.get(source.name, []), *results]
        event = {"tool": source.name, "arguments": {"query": text}, "answer": {"results": results}}
        await self._run.emit("tool", event)
        return {"results": results}
