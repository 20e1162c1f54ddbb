"""LangChain adapter: a tool of LangChain as a tool plugin, with its own schema of arguments.

It needs no LangChain itself: whoever has such a tool has that. What the tool calls nobody can see,
so it counts as one that may call anybody, unless ``hosts`` says whom.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Protocol

from rag.core.errors import ConfigurationError
from rag.core.options import option, schema_of
from rag.core.tools import Tool, ToolCall


class LangchainTool(Protocol):
    """What is used of ``langchain_core.tools.BaseTool``."""

    name: str
    description: str
    args_schema: Any

    def invoke(self, input: dict[str, Any]) -> Any:
        """Do it."""


def tool_of_langchain(tool: LangchainTool, *, hosts: Sequence[str] | None = None) -> type[Tool]:
    """Return a class to be given to ``register("tool")``; ``hosts`` are those that it calls.

    Raises ConfigurationError for a tool whose arguments are no flat model of pydantic.
    """
    told_hosts = () if hosts is None else tuple(hosts)

    class Adapted:
        """A tool of LangChain."""

        name = tool.name
        label = tool.name
        description = tool.description
        Options = _options(tool)

        def run(self, call: ToolCall) -> dict[str, Any]:
            """Return what the tool returns: an object as it is, anything else as ``result``."""
            call.deadline.check()
            given = {
                field.name: getattr(call.arguments, field.name)
                for field in dataclasses.fields(call.arguments)
            }
            found = tool.invoke(given)
            plain = json.loads(json.dumps(found, ensure_ascii=False, default=str))
            return plain if isinstance(plain, dict) else {"result": plain}

    if hosts is not None:
        Adapted.hosts = told_hosts  # type: ignore[attr-defined]
    return Adapted


def _options(tool: LangchainTool) -> type[Any]:
    """Return the arguments of a tool as a dataclass of options."""
    fields: Any = getattr(tool.args_schema, "model_fields", None)
    if fields is None:
        raise ConfigurationError(
            "The arguments of the tool {name} are no model of pydantic.", name=tool.name
        )
    made = []
    for name, one in fields.items():
        default = (
            dataclasses.MISSING if one.is_required() else one.get_default(call_default_factory=True)
        )
        made.append((name, one.annotation, option(default, help=one.description or "")))
    made.sort(key=lambda field: field[2].default is not dataclasses.MISSING)
    options = dataclasses.make_dataclass("Options", made, frozen=True, kw_only=True)
    try:
        schema_of(options)
    except TypeError as error:
        raise ConfigurationError(
            "The tool {name} has an argument that no form can show: {reason}.",
            name=tool.name,
            reason=error,
        ) from error
    return options
