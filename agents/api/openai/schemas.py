"""Schemas of OpenAI's requests: chat completions and embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, LiteralString

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
)
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

    model_config = ConfigDict(extra="allow", strict=True)

    role: Annotated[
        Literal["system", "developer", "user", "assistant", "tool", "function"],
        # The last two are refused by a sentence of their own.
        WithJsonSchema({"enum": ["system", "developer", "user", "assistant"], "type": "string"}),
    ]
    content: Annotated[str | list[dict[str, Any]] | None, _PARTS] = None


class CitableOptions(BaseModel):
    """What only this server understands, under the name ``citable``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    stores: list[_Name] = Field(default_factory=list, max_length=50)
    footnotes: bool | None = Field(
        default=None,
        description="The citations again, as lines below the text; unset: as key or agent say.",
    )


class StreamOptions(BaseModel):
    """How a stream ends."""

    model_config = ConfigDict(extra="allow", strict=True)

    include_usage: bool = False


class ChatCompletionBody(BaseModel):
    """A question to an agent; ``model`` is its name."""

    model_config = ConfigDict(
        extra="allow",
        strict=True,
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
        return completion_of(
            self.messages,
            model=self.model,
            temperature=self.temperature,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            stores=self.citable.stores,
        )


def completion_of(messages: Sequence[ChatMessage], **wishes: Any) -> CompletionRequest:
    """Return what messages ask: turns and system messages apart; raise InvalidInputError."""
    turns, said = list[Turn](), list[str]()
    for place, message in enumerate(messages):
        text = _text_of(message, place)
        if message.role in ("system", "developer"):
            said.append(text)
        elif text.strip():
            turns.append({"role": message.role, "content": text})
    if not turns or turns[-1]["role"] != "user" or messages[-1].role != "user":
        raise InvalidInputError(
            "The last message is not one of the user.",
            hint="End with what is asked.",
            param="messages",
        )
    return CompletionRequest(turns=turns, instructions="\n\n".join(filter(None, said)), **wishes)


_TEXTS = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
    ]
}


class EmbeddingsBody(BaseModel):
    """Texts to be embedded."""

    model_config = ConfigDict(extra="allow", strict=True)

    model: str = Field(min_length=1, max_length=300)
    input: Annotated[Any, WithJsonSchema(_TEXTS)] = Field(description="A text, or a list of texts.")
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
