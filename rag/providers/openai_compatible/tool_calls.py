"""Function calling wire format: tools and turns as JSON, calls from streamed deltas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rag.core.tools import ToolSpec
from rag.core.types import Message, ToolUse


def wire_tools(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the field of a request that offers tools; nothing where there are none."""
    told = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]
    return {"tools": told} if told else {}


def wire_message(message: Message) -> dict[str, Any]:
    """Return a turn as ``/chat/completions`` takes it."""
    if message.role == "tool":
        called = message.tool_calls[0].id if message.tool_calls else ""
        return {"role": "tool", "tool_call_id": called, "content": message.content}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
            },
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": message.content or None, "tool_calls": calls}


class CallCollector:
    """Puts calls together that come in any number of pieces, as servers number them or do not."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, str]] = {}

    def feed(self, pieces: Sequence[Mapping[str, Any]]) -> None:
        """Take the ``tool_calls`` of a message or delta."""
        for piece in pieces:
            function: Mapping[str, Any] = piece.get("function") or {}
            index = self._index(piece, function)
            call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
            call["id"] = call["id"] or str(piece.get("id") or "")
            call["name"] = call["name"] or str(function.get("name") or "")
            arguments = function.get("arguments")
            # Some servers send the object itself.
            whole = json.dumps(arguments) if isinstance(arguments, Mapping) else arguments
            call["arguments"] += str(whole or "")

    def calls(self) -> tuple[ToolUse, ...]:
        """Return the calls in their order, each with an id."""
        return tuple(
            _read(call["id"] or f"call_{index}", call["name"], call["arguments"])
            for index, call in sorted(self._calls.items())
            if call["name"]
        )

    def _index(self, piece: Mapping[str, Any], function: Mapping[str, Any]) -> int:
        index = piece.get("index")
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        # Without a number a name begins a call, and what has none goes on with the last.
        n = len(self._calls)
        return n if function.get("name") or not n else n - 1


def _read(id: str, name: str, text: str) -> ToolUse:
    try:
        arguments = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return ToolUse(id, name, fault="The arguments are no JSON.")
    if not isinstance(arguments, dict):
        return ToolUse(id, name, fault="The arguments are no JSON object.")
    return ToolUse(id, name, arguments)
