"""Schemas of OpenAI's requests, and which of its parameters are ignored or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, LiteralString

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from agents.chat.openai.completion_request import CompletionRequest
from agents.core.state import Turn
from rag.core.errors import InvalidInputError

MAX_MESSAGES = 2000
_Stop = Annotated[str, Field(min_length=1, max_length=200)]
_Name = Annotated[str, Field(min_length=1, max_length=512)]


def _or_else(fault: LiteralString, message: LiteralString) -> WrapValidator:
    def checked(value: Any, check: Any) -> Any:
        try:
            return check(value)
        except ValidationError as error:
            # One fault of one field, and not one for each form that it could have.
            raise PydanticCustomError(fault, message) from error

    return WrapValidator(checked)


_PARTS = _or_else("text_or_parts", "This must be a text or a list of parts.")
_STOPS = _or_else("short_texts", "This must be a text or texts, each of 1 to 200 characters.")


class ChatMessage(BaseModel):
    """One turn. Contents are a text, or parts of the type text."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[str | list[dict[str, Any]] | None, _PARTS] = None


class CitableOptions(BaseModel):
    """What only this server understands, under the name ``citable``."""

    model_config = ConfigDict(extra="forbid")

    stores: list[_Name] = Field(default_factory=list, max_length=50)
    footnotes: bool = Field(
        default=False, description="The citations again, as lines below the text."
    )


class StreamOptions(BaseModel):
    """How a stream ends."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool = False


class ChatCompletionBody(BaseModel):
    """A question to an agent; ``model`` is its name."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "rag",
                    "messages": [{"role": "user", "content": "How often is the pump serviced?"}],
                    "citable": {"stores": ["manuals"], "footnotes": True},
                }
            ]
        },
    )

    model: str = Field(min_length=1, max_length=300)
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, ge=1, le=65536)
    max_completion_tokens: int | None = Field(None, ge=1, le=65536)
    stop: Annotated[_Stop | list[_Stop] | None, _STOPS] = None
    citable: CitableOptions = Field(default_factory=CitableOptions)

    @property
    def stops(self) -> list[str]:
        """Return the stop sequences; raise InvalidInputError for more than four."""
        found = [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
        if len(found) > 4:
            raise InvalidInputError(
                "There are {n} stop sequences.",
                hint="Allowed: {limit}.",
                n=len(found),
                limit=4,
                param="stop",
            )
        return found

    def asked(self) -> CompletionRequest:
        """Return question, turns before it and wishes; raise InvalidInputError."""
        turns, said = list[Turn](), list[str]()
        for place, message in enumerate(self.messages):
            text = _text_of(message, place)
            if message.role in ("system", "developer"):
                said.append(text)
            elif text.strip():
                turns.append({"role": message.role, "content": text})
        if not turns or turns[-1]["role"] != "user" or self.messages[-1].role != "user":
            raise InvalidInputError(
                "The last message is not one of the user.",
                hint="End with what is asked.",
                param="messages",
            )
        limit = self.max_completion_tokens or self.max_tokens
        return CompletionRequest(
            model=self.model,
            turns=turns,
            instructions="\n\n".join(filter(None, said)),
            temperature=self.temperature,
            max_tokens=limit,
            stores=self.citable.stores,
        )


class EmbeddingsBody(BaseModel):
    """Texts to be embedded."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(min_length=1, max_length=300)
    input: Any = Field(description="A text, or a list of texts.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    input_type: Literal["passage", "document", "query"] = Field(
        "passage", description="query: what is looked for; passage: what shall be found."
    )


def _text_of(message: ChatMessage, place: int) -> str:
    extra: Mapping[str, Any] = message.model_extra or {}
    if message.role in ("tool", "function") or extra.get("tool_calls"):
        raise InvalidInputError(
            "Calls of tools and their results cannot be taken.",
            hint="Agents call their own tools; send texts only.",
            param=f"messages.{place}",
            code="unsupported_value",
        )
    if isinstance(message.content, str) or message.content is None:
        return message.content or ""
    texts = []
    for part in message.content:
        if part.get("type") not in ("text", "refusal") or not isinstance(part.get("text"), str):
            raise InvalidInputError(
                "A part of the type “{kind}” cannot be taken.",
                hint="Send text.",
                kind=str(part.get("type"))[:40],
                param=f"messages.{place}.content",
                code="unsupported_value",
            )
        texts.append(part["text"])
    return "\n".join(texts)


_TUNING = frozenset(
    {
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "logit_bias",
        "reasoning_effort",
        "verbosity",
        "service_tier",
        "store",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "parallel_tool_calls",
        "tool_choice",
        # Of the local servers, which many clients send without being asked.
        "top_k",
        "min_p",
        "repetition_penalty",
        "repeat_penalty",
        "num_ctx",
        "keep_alive",
        "chat_template_kwargs",
        "enable_thinking",
        "thinking",
        "reasoning",
    }
)
# What each may be, besides null, without anybody missing anything.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "tools": ([],),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "guided_json": (),
    "guided_regex": (),
}


def check_parameters(given: Mapping[str, Any], known: frozenset[str] = _TUNING) -> list[str]:
    """Return the names of what has no effect; raise InvalidInputError for what cannot be done."""
    ignored = []
    for name, value in given.items():
        if value is None:
            continue
        if name in _REFUSED:
            if value not in _REFUSED[name] and not _is_idle_tools(name, given):
                raise InvalidInputError(
                    "“{param}” cannot be done here with this value.",
                    hint="Leave it out: an agent answers with one text and calls its own tools.",
                    param=name,
                    code="unsupported_parameter",
                )
        elif name in known:
            ignored.append(name)
        else:
            raise InvalidInputError(
                "There is no parameter “{param}”.",
                hint="Check its spelling, or leave it out.",
                param=name[:100],
                code="unknown_parameter",
            )
    return sorted(ignored)


def _is_idle_tools(name: str, given: Mapping[str, Any]) -> bool:
    return name == "tools" and given.get("tool_choice") == "none"
