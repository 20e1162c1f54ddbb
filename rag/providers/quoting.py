"""Quoting chat model: answers by a JSON schema whose quotes are the sentences that were given.

For endpoints that hold a model to a schema: small models cite so what the sources say, word for
word. The answer is passed on with the citation markers of every other one.
"""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Message
from rag.stages.text.sentences import sentence_spans
from rag.stages.text.terms import is_han

# A schema has its limits, too; what is beyond them cannot be quoted.
MAX_SENTENCES, MAX_CHARACTERS = 200, 400
_FORM = {
    True: """请用 JSON 代替引用标签，例如：
{"statements": [{"text": "每年有15天年假。", "quote": "年假为15天。"}]}
text 是一句回答，quote 是支持它的原文；没有原文支持时 quote 为空字符串。""",
    False: """Write JSON in place of citation tags, as in this example:
{"statements": [{"text": "You have 15 days of leave.", "quote": "Leave is 15 days a year."}]}
A text is one sentence of the answer, its quote the words of a source that say so; an empty string
where none does.""",
}


class QuotingChatModel:
    """The ChatModel port on another one; it asks for quotes by a schema where passages are cited.

    Requests with tools, a schema or a form of their own go on as they are, and so does an answer
    that is no such JSON.
    """

    def __init__(self, model: ChatModel) -> None:
        self.id = model.id
        self.has_tools: bool = getattr(model, "has_tools", False)
        self._model = model

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the whole answer; raise ProviderError or ProviderTimeoutError."""
        sentences = quotable_sentences(request)
        if not sentences:
            return self._model.generate(request)
        reply = self._model.generate(_with_form(request, sentences))
        reader = QuoteReader(sentences)
        return replace(reply, text=reader.feed(reply.text) + reader.finish())

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield each statement as it is complete."""
        sentences = quotable_sentences(request)
        asked = _with_form(request, sentences) if sentences else request
        reader = QuoteReader(sentences) if sentences else None
        last: ChatReply | None = None
        pieces: Any = self._model.stream(asked)
        async with aclosing(pieces):
            async for piece in pieces:
                last = piece
                yield replace(piece, text=reader.feed(piece.text)) if reader else piece
        if reader and last and (rest := reader.finish()):
            yield replace(last, text=rest, input_tokens=None, output_tokens=None)


def quotable_sentences(request: ChatRequest) -> Mapping[str, str]:
    """Return the sentences that may be quoted, with the ids of their documents; none where a
    request has another form, or cites nothing."""
    has_form = request.tools or request.schema is not None or "response_format" in request.options
    if has_form or not request.passages:
        return {}
    found: dict[str, str] = {}
    for doc_id, text in request.passages:
        for start, end in sentence_spans(text):
            sentence = text[start:end]
            if len(sentence) <= MAX_CHARACTERS and any(map(str.isalnum, sentence)):
                found.setdefault(sentence, doc_id)
            if len(found) == MAX_SENTENCES:
                return found
    return found


def _with_form(request: ChatRequest, sentences: Mapping[str, str]) -> ChatRequest:
    statement = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "quote": {"type": "string", "enum": ["", *sentences]},
        },
        "required": ["text", "quote"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {"statements": {"type": "array", "items": statement}},
        "required": ["statements"],
        "additionalProperties": False,
    }
    first, *rest = request.messages
    form = _FORM[is_han(request.question or request.messages[-1].content)]
    told: Sequence[Message] = [replace(first, content=f"{first.content}\n{form}"), *rest]
    return replace(request, messages=told, schema=schema)


class QuoteReader:
    """Reads statements as JSON, in any pieces, and writes them with citation markers."""

    def __init__(self, sentences: Mapping[str, str]) -> None:
        self._sentences = sentences
        self._held, self._n = "", 0
        self._is_form: bool | None = None

    def feed(self, piece: str) -> str:
        """Return the statements that a piece completes; a text that is no form as it comes."""
        self._held += piece
        if self._is_form is None and (begun := self._held.lstrip(" \n\r\t`json")):
            self._is_form = begun[0] == "{"
        if self._is_form is False:
            ready, self._held = self._held, ""
            return ready
        return self._statements() if self._is_form else ""

    def finish(self) -> str:
        """Return what was held back, where no statement could be read."""
        return "" if self._n else self._held

    def _statements(self) -> str:
        at = self._held.find("[") if not self._n else 0
        out, decoder = "", json.JSONDecoder()
        while at >= 0 and (start := self._held.find("{", at)) >= 0:
            try:
                found, at = decoder.raw_decode(self._held, start)
            except (ValueError, RecursionError):
                break
            out += self._marked(found) if isinstance(found, dict) else ""
            self._held, at = self._held[at:], 0
        return out

    def _marked(self, statement: Mapping[str, Any]) -> str:
        text, quote = (str(statement.get(name) or "").strip() for name in ("text", "quote"))
        if not text:
            return ""
        gap = "" if not self._n or is_han(text) else " "
        self._n += 1
        if not quote:
            return gap + text
        doc_id = self._sentences.get(quote, "")
        named = f'doc_id="{html.escape(doc_id)}" ' if doc_id else ""
        return f'{gap}<cite {named}quote="{html.escape(quote)}">{text}</cite>'
