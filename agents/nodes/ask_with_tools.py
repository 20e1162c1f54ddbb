"""A model that may call tools before it answers. In: a request, names of tools. Out: its answer.

Tools are offered and called in the text itself, as JSON, so that it works with every model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.core.nodes import NodeRun
from agents.flows.read_output import find_objects
from agents.nodes.toolbox import Toolbox
from rag.core.errors import LimitError, ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import Message

MAX_CALLS = 8
# What a server answers with that does not know an option of the request.
_REFUSED = (400, 422)
_FORM = ("response_format", "response_mime_type", "response_json_schema")


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer's text and the request that led to it, all tool calls included."""

    text: str
    request: ChatRequest


async def ask_with_tools(name: str, request: ChatRequest, tools: Toolbox, run: NodeRun) -> Asked:
    """Return the first answer that calls no tool.

    A call that fails is told to the model. Raises LimitError after eight calls.
    """
    if tools.names:
        # The form of the final answer does not allow for calls.
        request = _without_form(request)
    for _ in range(MAX_CALLS + 1):
        asked = await ask_once(name, request, run)
        call = _tool_call(asked.text, tools.names)
        if call is None:
            return asked
        result = await tools.call(*call)
        turns = [Message("assistant", asked.text), Message("user", result)]
        request = replace(asked.request, messages=[*asked.request.messages, *turns])
    raise LimitError(
        "The node “{name}” called tools {n} times without an answer.",
        hint="Say in its prompt when to stop.", name=run.node, n=MAX_CALLS,
    )  # fmt: skip


async def ask_once(name: str, request: ChatRequest, run: NodeRun) -> Asked:
    """Return one answer; a server that refuses the wished form is asked without it."""
    try:
        return Asked((await run.ask_model(name, request)).text, request)
    except ProviderError as error:
        plain = _without_form(request)
        if error.params.get("status") not in _REFUSED or plain == request:
            raise
        return Asked((await run.ask_model(name, plain)).text, plain)


def _without_form(request: ChatRequest) -> ChatRequest:
    if not any(name in request.options for name in _FORM):
        return request
    return replace(
        request, options={key: one for key, one in request.options.items() if key not in _FORM}
    )


def _tool_call(text: str, tools: Sequence[str]) -> tuple[str, Mapping[str, Any]] | None:
    if not tools:
        return None
    for found in find_objects(text):
        arguments = found.get("arguments", {})
        if found.keys() <= {"tool", "arguments"} and found.get("tool") in tools:
            return found["tool"], arguments if isinstance(arguments, dict) else {}
    return None
