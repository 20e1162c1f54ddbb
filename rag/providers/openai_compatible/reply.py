"""Chat completion wire format: request bodies, and text, finish reason and tokens of responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.core.errors import InvalidInputError
from rag.core.ports import ChatRequest
from rag.providers.openai_compatible.tool_calls import wire_tools

RESERVED = frozenset({"model", "messages", "stream", "stream_options", "n"})


@dataclass(frozen=True, slots=True)
class Piece:
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


def read_piece(body: Mapping[str, Any]) -> Piece:
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
    return Piece(
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
