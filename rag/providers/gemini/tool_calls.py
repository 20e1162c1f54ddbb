"""Function calling of Gemini: tools and turns as the SDK's objects, calls read from its parts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rag.core.tools import ToolSpec
from rag.core.types import Message, ToolUse

if TYPE_CHECKING:
    from google.genai.types import Content, Part

ROLES = {"assistant": "model"}


def declared(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the part of a config that offers tools; nothing where there are none."""
    functions = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters_json_schema": dict(tool.parameters),
        }
        for tool in tools
    ]
    return {"tools": [{"function_declarations": functions}]} if functions else {}


def turns_of(messages: Sequence[Message]) -> list[Content]:
    """Return the turns besides system messages; results of calls made at once share a turn."""
    # Heavy SDK, only where a model is called.
    from google.genai.types import Content

    turns: list[Content] = []
    last_role = ""
    for message in messages:
        if message.role == "system":
            continue
        parts = _parts(message)
        if message.role == last_role == "tool" and turns[-1].parts is not None:
            turns[-1].parts += parts
        else:
            turns.append(Content(role=ROLES.get(message.role, "user"), parts=parts))
        last_role = message.role
    return turns


def calls_in(parts: Sequence[Part]) -> tuple[ToolUse, ...]:
    """Return the calls among the parts of an answer."""
    return tuple(
        ToolUse(
            part.function_call.id or "",
            part.function_call.name,
            part.function_call.args or {},
            signature=base64.b64encode(part.thought_signature or b"").decode(),
        )
        for part in parts
        if part.function_call and part.function_call.name
    )


def _parts(message: Message) -> list[Part]:
    # Heavy SDK, only where a model is called.
    from google.genai.types import FunctionCall, FunctionResponse, Part

    if message.role == "tool" and message.tool_calls:
        call = message.tool_calls[0]
        response = FunctionResponse(
            id=call.id or None, name=call.name, response={"result": message.content}
        )
        return [Part(function_response=response)]
    if not message.tool_calls:
        return [Part(text=message.content)]
    parts = [Part(text=message.content)] if message.content else []
    return parts + [
        Part(
            function_call=FunctionCall(
                id=call.id or None, name=call.name, args=dict(call.arguments)
            ),
            thought_signature=base64.b64decode(call.signature) or None,
        )
        for call in message.tool_calls
    ]
