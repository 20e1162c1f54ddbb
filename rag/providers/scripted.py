"""Scripted chat model: answers from a YAML file.

For tests and for trying flows without a model. A script is YAML::

    answers:
      - contains: intent          # or a list: all of them must stand in the messages
        answer: {intent: qa}      # a text, or anything else, which is sent as JSON
      - contains: [report, 2024]
        answers: [not json, "{}"] # the second one after the first was answered, and so on
        delay_s: 0.2
      - contains: pump            # tools, called where some are offered; else sent as JSON
        answers: [{calls: [{tool: vector_retrieve, arguments: {query: pump}}]}, "Every 30 days."]
    default: I do not know.       # without it an unknown question is an error
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import yaml

from rag.core.errors import ConfigurationError, InvalidInputError, ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message, ToolUse

_PIECE = re.compile(r"\S+\s*|\s+")
_KEYS = frozenset({"contains", "answer", "answers", "delay_s", "error"})
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """What is answered where all of ``contains`` stand in the messages."""

    contains: tuple[str, ...]
    answers: tuple[str, ...]
    delay_s: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """Lines of which the first that fits is taken, and an answer for when none does."""

    lines: tuple[ScriptLine, ...]
    default: str | None = None

    @classmethod
    def from_dict(cls, data: Any, *, name: str) -> Self:
        """Return the script; raise InvalidInputError that names the line which is wrong."""
        if not isinstance(data, Mapping) or not data.keys() <= {"answers", "default"}:
            raise _wrong(name, "it must hold answers and perhaps default")
        lines = data.get("answers") or []
        if not isinstance(lines, Sequence) or isinstance(lines, str):
            raise _wrong(name, "answers must be a list")
        default = None if data.get("default") is None else _text(data["default"])
        return cls(
            tuple(_line(line, number, name) for number, line in enumerate(lines, 1)), default
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the script of a YAML file; raise ConfigurationError when it cannot be read."""
        try:
            if path.suffix not in (".yaml", ".yml") or path.stat().st_size > _MAX_BYTES:
                raise _wrong(str(path), "it must be a small .yaml file")
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigurationError(
                "The script “{path}” cannot be read: {reason}.", path=path, reason=error.strerror
            ) from error
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise _wrong(str(path), "it is no YAML") from error
        return cls.from_dict(data, name=str(path))


class ScriptedChatModel:
    """The ChatModel port on a script; keeps nothing between calls."""

    has_tools = True

    def __init__(self, script: Script, name: str = "script") -> None:
        self.id = f"scripted:{name}"
        self._script = script

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the answer; raise ProviderError where the script has none or says so."""
        text, line = self._answer(request)
        time.sleep(line.delay_s)
        if request.tools and (calls := _calls(text)):
            return replace(self._reply("", text, request), tool_calls=calls)
        text = "".join(_PIECE.findall(text)[: request.max_tokens])
        return self._reply(text, text, request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield the answer word by word; the delay is spread over the words."""
        text, line = self._answer(request)
        if request.tools and (calls := _calls(text)):
            await asyncio.sleep(line.delay_s)
            yield replace(self._reply("", text, request), tool_calls=calls)
            return
        pieces = _PIECE.findall(text)[: request.max_tokens] or [""]
        text = "".join(pieces)
        for piece in pieces[:-1]:
            await asyncio.sleep(line.delay_s / len(pieces))
            yield ChatReply(piece, model=self.id)
        await asyncio.sleep(line.delay_s / len(pieces))
        yield self._reply(pieces[-1], text, request)

    def _answer(self, request: ChatRequest) -> tuple[str, ScriptLine]:
        text = "\n".join(message.content for message in request.messages)
        fitting = (one for one in self._script.lines if all(map(text.__contains__, one.contains)))
        line = next(fitting, None)
        if line is None:
            if self._script.default is None:
                raise ProviderError(
                    "The script has no answer to “{question}”.",
                    hint="Add one, or a default.",
                    question=text[-80:],
                )
            return self._script.default, ScriptLine((), ())
        if line.error:
            raise ProviderError("The script says that the model fails: {reason}", reason=line.error)
        # Each answer that was given stands in the messages.
        n_given = sum(_is_among(message, line.answers) for message in request.messages)
        return line.answers[min(n_given, len(line.answers) - 1)], line

    def _reply(self, piece: str, text: str, request: ChatRequest) -> ChatReply:
        n_in = sum(len(_PIECE.findall(message.content)) for message in request.messages)
        n_out = len(_PIECE.findall(text))
        reason = "length" if n_out >= request.max_tokens else "stop"
        return ChatReply(piece, self.id, reason, n_in, n_out)


def _calls(text: str) -> tuple[ToolUse, ...]:
    """Return the calls of an answer ``{"calls": [{"tool": …, "arguments": {…}}]}``."""
    try:
        calls = json.loads(text)["calls"]
        return tuple(
            ToolUse(f"call_{number}", call["tool"], dict(call.get("arguments") or {}))
            for number, call in enumerate(calls, start=1)
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def _is_among(message: Message, answers: Sequence[str]) -> bool:
    if message.role != "assistant":
        return False
    if message.tool_calls:
        return any(_calls(answer) == message.tool_calls for answer in answers)
    return message.content in answers


def _line(data: Any, number: int, name: str) -> ScriptLine:
    if not isinstance(data, Mapping) or not data.keys() <= _KEYS or not data.get("contains"):
        raise _wrong(name, f"line {number} must hold contains and answer, answers or error")
    contains = data["contains"]
    texts = contains if isinstance(contains, list) else [contains]
    answers = data["answers"] if isinstance(data.get("answers"), list) else [data.get("answer")]
    if not data.get("error") and (not answers or None in answers):
        raise _wrong(name, f"line {number} has no answer")
    delay_s = data.get("delay_s", 0)
    if isinstance(delay_s, bool) or not isinstance(delay_s, (int, float)) or not 0 <= delay_s <= 60:
        raise _wrong(name, f"delay_s of line {number} must be 0 to 60")
    return ScriptLine(
        tuple(map(str, texts)), tuple(map(_text, answers)), delay_s, str(data.get("error") or "")
    )


def _text(answer: Any) -> str:
    return (
        answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    )


def _wrong(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError("The script “{name}” is wrong: {reason}.", name=name, reason=reason)
