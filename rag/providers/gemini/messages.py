"""Gemini wire format: requests, turns and tools as the SDK's objects, replies from its answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag.core.errors import InvalidInputError, ProviderError
from rag.core.ports import ChatRequest
from rag.core.tools import ToolSpec
from rag.core.types import ChatReply, Message, ToolUse
from rag.providers.gemini.client import http_options
from rag.providers.remote.service import RemoteService

if TYPE_CHECKING:
    from google.genai.types import Content, GenerateContentConfig, GenerateContentResponse, Part


ROLES = {"assistant": "model"}


def tool_declarations(tools: Sequence[ToolSpec]) -> dict[str, Any]:
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


def contents_of(messages: Sequence[Message]) -> list[Content]:
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


def function_calls(parts: Sequence[Part]) -> tuple[ToolUse, ...]:
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


REASONS = {"STOP": "stop", "MAX_TOKENS": "length"}
FILTERS = frozenset(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE")
)
RESERVED = frozenset({"system_instruction", "http_options", "candidate_count", "tools"})
THINKING = ("thinking_budget", "thinking_level")


def generation_config(
    request: ChatRequest, defaults: Mapping[str, Any], timeout_s: float
) -> GenerateContentConfig:
    """Return system instruction, sampling, thinking and timeout; options are the SDK's names.

    ``thinking_budget`` (tokens, 0 none, -1 dynamic) and ``thinking_level`` may stand among them.
    """
    # Heavy SDK, only where a model is called.
    from google.genai.types import GenerateContentConfig
    from pydantic import ValidationError

    options = {**defaults, **request.options}
    if request.schema is not None:
        options |= {
            "response_mime_type": "application/json",
            "response_json_schema": dict(request.schema),
        }
    for name in RESERVED & options.keys():
        raise InvalidInputError(
            "“{name}” cannot be set as an option of a model.",
            hint="Not allowed: {reserved}.",
            name=name,
            reserved=", ".join(sorted(RESERVED)),
        )
    thinking = {name: options.pop(name) for name in THINKING if name in options}
    system = [message.content for message in request.messages if message.role == "system"]
    fields = {
        "temperature": request.temperature,
        "max_output_tokens": request.max_tokens,
        "system_instruction": "\n\n".join(system) or None,
        "thinking_config": thinking or None,
        # It logs a line for each request, though there is nothing to call.
        "automatic_function_calling": {"disable": True},
        "http_options": http_options(timeout_s),
        **tool_declarations(request.tools),
        **options,
    }
    try:
        return GenerateContentConfig.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidInputError(
            "The model option {name} is wrong: {reason}.",
            hint="Options are the names of Gemini's generation settings.",
            name=".".join(map(str, first["loc"])),
            reason=first["msg"],
        ) from None


def read_reply(service: RemoteService, response: GenerateContentResponse) -> ChatReply:
    """Return the text (thoughts left out), reason and tokens of an answer or a piece of it.

    Raises ProviderError when the prompt was blocked; an empty text is the caller's to judge.
    """
    feedback = response.prompt_feedback
    if not response.candidates and feedback is not None and feedback.block_reason is not None:
        raise ProviderError(
            "{service} blocked the question or the texts sent with it ({reason}).",
            hint="Ask in other words, or choose another model.",
            service=service.name,
            reason=feedback.block_reason.value,
        )
    candidate = response.candidates[0] if response.candidates else None
    content = candidate.content if candidate else None
    parts = (content.parts if content else None) or []
    reason = candidate.finish_reason.value if candidate and candidate.finish_reason else ""
    usage = response.usage_metadata
    n_asked = usage.prompt_token_count if usage else None
    n_retrieved = (usage.tool_use_prompt_token_count if usage else None) or 0
    n_answer = usage.candidates_token_count if usage else None
    n_thought = usage.thoughts_token_count if usage else None
    has_output = n_answer is not None or n_thought is not None
    return ChatReply(
        "".join(part.text or "" for part in parts if not part.thought),
        model=f"gemini:{service.model}",
        finish_reason="content_filter"
        if reason in FILTERS
        else REASONS.get(reason, reason.lower()),
        # What a tool retrieved is read and paid for like the prompt.
        input_tokens=None if n_asked is None else n_asked + n_retrieved,
        output_tokens=(n_answer or 0) + (n_thought or 0) if has_output else None,
        tool_calls=function_calls(parts),
    )
