"""Chat completions wire format: requests, replies, tool calls, and <think> blocks left out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.core.errors import InvalidInputError
from rag.core.ports import ChatRequest
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


class ToolCallCollector:
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


RESERVED = frozenset({"model", "messages", "stream", "stream_options", "n"})


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """What one message or delta says; None where it says nothing about tokens."""

    text: str = ""
    refusal: str = ""
    finish_reason: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()


def request_body(
    request: ChatRequest, defaults: Mapping[str, Any], renamed: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the fields of a request besides model and messages.

    ``defaults`` and then the request's options are laid over temperature and max_tokens, their
    ``extra_body`` over all; None takes a field out. ``renamed`` maps a field to the name that the
    server wants instead, or None.
    """
    body: dict[str, Any] = {"temperature": request.temperature, "max_tokens": request.max_tokens}
    body |= wire_tools(request.tools)
    if request.schema is not None:
        # Strict where the schema is one that OpenAI takes so.
        is_strict = request.schema.get("additionalProperties") is False
        shape = {"name": "answer", "strict": is_strict, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    for options in (defaults, request.options):
        flat = {name: value for name, value in options.items() if name != "extra_body"}
        flat |= options.get("extra_body") or {}
        for name in RESERVED & flat.keys():
            raise InvalidInputError(
                "“{name}” cannot be set as an option of a model.",
                hint="Not allowed: {reserved}.",
                name=name,
                reserved=", ".join(sorted(RESERVED)),
            )
        if "max_completion_tokens" in flat:
            body.pop("max_tokens", None)
        body |= flat
    for name, new_name in renamed.items():
        value = body.pop(name, None)
        if new_name is not None:
            body.setdefault(new_name, value)
    return {name: value for name, value in body.items() if value is not None}


def read_delta(body: Mapping[str, Any]) -> ChatDelta:
    """Return what a whole answer or a chunk of a stream says; raise ValueError for anything else.

    Reasoning comes in fields of its own (reasoning_content, reasoning) and is left there.
    """
    choices = body.get("choices") or []
    usage = body.get("usage") or {}
    if not _is_list_of_mappings(choices) or not isinstance(usage, Mapping):
        raise ValueError("choices or usage of another kind")
    # DeepSeek's and OpenAI's last chunk carries tokens and no choice.
    choice = choices[0] if choices else {}
    message = choice.get("message") or choice.get("delta") or {}
    if not isinstance(message, Mapping):
        raise ValueError("a message of another kind")
    calls = message.get("tool_calls") or []
    if not _is_list_of_mappings(calls) or not all(
        isinstance(call.get("function") or {}, Mapping) for call in calls
    ):
        raise ValueError("calls of another kind")
    return ChatDelta(
        text=_text(message.get("content")),
        refusal=_text(message.get("refusal")),
        finish_reason=str(choice.get("finish_reason") or ""),
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        tool_calls=tuple(calls),
    )


def _text(content: object) -> str:
    # Mistral sends a list of typed parts, its thinking among them.
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        return "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")
    if content is None or isinstance(content, str):
        return content or ""
    raise ValueError("a text of another kind")


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_list_of_mappings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


OPENING, CLOSING = "<think>", "</think>"


class ReasoningFilter:
    """Drops one <think> block at the very start of an answer; text about the tag stays.

    DeepSeek-R1, QwQ and Qwen3 behind servers without a reasoning parser write it into the answer
    itself; a tag may come in any number of pieces.
    ``is_thinking`` True is for models whose prompt already opened the block.
    """

    def __init__(self, *, is_thinking: bool = False) -> None:
        self._state = "thinking" if is_thinking else "start"
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what of the text so far is answer and was not returned before."""
        self._held += piece
        if self._state == "start":
            self._leave_start()
        if self._state == "thinking":
            _, found, rest = self._held.partition(CLOSING)
            if not found:
                # Only the tail can be the beginning of the tag.
                self._held = self._held[-len(CLOSING) :]
                return ""
            self._held, self._state = rest, "after"
        if self._state == "after":
            self._held = self._held.lstrip()
            if not self._held:
                return ""
            self._state = "answer"
        if self._state == "start":
            return ""
        ready, self._held = self._held, ""
        return ready

    def end(self) -> str:
        """Return what was held back and turned out to be answer."""
        return self._held if self._state == "start" else ""

    def _leave_start(self) -> None:
        text = self._held.lstrip()
        if text.startswith(OPENING):
            self._state, self._held = "thinking", text[len(OPENING) :]
        elif not OPENING.startswith(text):
            self._state = "answer"
