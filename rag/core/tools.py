"""Tool plugins: functions that a model may call, their specification and the call itself.

A tool's ``Options`` are the typed input of one call, so their schema is what models are shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ProviderError
from rag.core.options import read_options, schema_of
from rag.core.sources import SourcePorts


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, for somebody (``scope``), until a ``deadline``.

    ``arguments`` are the tool's ``Options``, read and checked. The ``scope`` is the person's for
    whom a model acts: a tool may do nothing that they could not do themselves.
    """

    arguments: Any
    scope: Scope
    deadline: Deadline
    ports: SourcePorts


class Tool(Protocol):
    """A tool. Made without arguments; called from many threads at once; raises RAGError only.

    ``description`` tells a model when to call it and what comes back.
    """

    name: str
    label: Any
    description: str
    Options: type[Any]

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Do it and return a JSON-safe dict that a model can read."""
        ...


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


def spec_of(tool: type[Tool] | Tool) -> ToolSpec:
    """Return name, description and input schema for a model's function calling."""
    return ToolSpec(tool.name, tool.description, schema_of(tool.Options))


def call_tool(
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    scope: Scope,
    deadline: Deadline,
    ports: SourcePorts,
) -> dict[str, Any]:
    """Check what a model sent, run the tool and return its answer.

    Raises InvalidInputError for arguments that do not fit, ProviderError for an answer that is
    no JSON object, and what the tool raises.
    """
    read = read_options(tool.Options, arguments, of=tool.name)
    deadline.check()
    answer = tool.run(ToolCall(read, scope, deadline, ports))
    if not isinstance(answer, dict):
        raise ProviderError("The tool {name} answered with no object.", name=tool.name)
    try:
        json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise ProviderError(
            "The answer of the tool {name} is not JSON: {reason}.", name=tool.name, reason=error
        ) from error
    return answer
