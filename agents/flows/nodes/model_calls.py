"""Model calls of a node: retries, fallback models, tools by the model's own calls or in words.

A server that refuses a wished form, or tools, is asked without them: these are then in the prompt.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from agents.core.model_options import ModelConfig, model_options
from agents.core.nodes import NodeRun
from agents.core.prompts import fill_prompt, prompt_file
from agents.core.spoken_text import SpokenText
from agents.core.tool_calls import parse_tool_calls
from agents.flows.definition.node_configs import AgentNodeConfig
from agents.flows.nodes.toolbox import Toolbox
from rag.core.errors import LimitError, ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import Message, ToolUse
from rag.stages.citing.verify import AnswerWriter

# What a server answers with that does not know an option of the request, or takes no tools.
_REFUSED = (400, 404, 422, 501)
_FORM = ("response_format", "response_mime_type", "response_json_schema")
# Asked once more these would answer the same.
_FINAL = (400, 401, 402, 403, 404, 413, 422)
MAX_ROUNDS, RETRY_WAIT_S = 8, 0.5
_DEFAULT = ModelConfig(provider="default", name="default")
# Models whose servers refused tools of their own.
_TAKES_NONE: set[str] = set()


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """An answer's text, the request that led to it, all tool calls included, and its check.

    ``calls`` is what the model wants called instead of an answer.
    """

    text: str
    request: ChatRequest
    writer: AnswerWriter | None = None
    calls: tuple[ToolUse, ...] = ()
    is_native: bool = False


# What tells an answer to people and checks it, made anew for each call.
NewSpoken = Callable[[], SpokenText]


class ModelCalls:
    """The models of one visit, in the order in which they are asked."""

    def __init__(self, config: AgentNodeConfig, run: NodeRun, tools: Toolbox) -> None:
        self._config, self._run, self._tools = config, run, tools

    async def answer(self, request: ChatRequest, spoken: NewSpoken) -> ModelAnswer:
        """Return the first answer that calls no tool; a call that fails is told to the model.

        Raises LimitError after eight rounds of calls.
        """
        for _ in range(MAX_ROUNDS + 1):
            asked = await self.ask(request, spoken, with_tools=bool(self._tools.names))
            if not asked.calls:
                return asked
            results = [await self._tools.call(call) for call in asked.calls]
            request = replace(request, messages=[*request.messages, *_turns(asked, results)])
        raise LimitError(
            "The node “{name}” called tools {n} times without an answer.",
            hint="Say in its prompt when to stop.",
            name=self._run.node,
            n=MAX_ROUNDS,
        )

    async def ask(
        self, request: ChatRequest, spoken: NewSpoken, *, with_tools: bool = False
    ) -> ModelAnswer:
        """Return one answer of the first model that gives one; raise the last one's ProviderError.

        Each is asked ``retries`` times more, unless it refuses what it is asked.
        """
        models = [self._config.model, *self._config.fallback_models]
        for place, model in enumerate(models, 1):
            for tries_left in range(self._config.retries, -1, -1):
                try:
                    return await self._asked(request, model, spoken, with_tools)
                except ProviderError as error:
                    is_final = not tries_left or error.params.get("status") in _FINAL
                    if place == len(models) and is_final:
                        raise
                    if is_final:
                        break
                wait_s = RETRY_WAIT_S * 2.0 ** (self._config.retries - tries_left)
                await asyncio.sleep(min(wait_s, self._run.deadline.remaining_s))
        raise AssertionError("one model is always asked")

    async def _asked(
        self, request: ChatRequest, model: ModelConfig | None, spoken: NewSpoken, with_tools: bool
    ) -> ModelAnswer:
        name = model.id if model else ""
        known = self._run.model_id(name)
        is_native = with_tools and known not in _TAKES_NONE and await self._run.takes_tools(name)
        ways = list(
            self._ways(_fitted(request, model, self._config, self._run), is_native, with_tools)
        )
        for number, way in enumerate(ways, 1):
            told = spoken()
            try:
                reply = await self._run.ask_model(name, way, told)
            except ProviderError as error:
                if number == len(ways) or error.params.get("status") not in _REFUSED:
                    raise
                if way.tools:
                    _TAKES_NONE.add(known)
                continue
            calls = reply.tool_calls
            if with_tools and not calls:
                names = self._tools.names
                calls = parse_tool_calls(reply.text, names, is_lenient=not way.tools) or ()
            return ModelAnswer(reply.text, way, told.writer, calls, bool(reply.tool_calls))
        raise AssertionError("one way is always tried")

    def _ways(
        self, request: ChatRequest, is_native: bool, with_tools: bool
    ) -> Iterator[ChatRequest]:
        plain = _without_form(request)
        if with_tools:
            # The form of the final answer does not allow for calls.
            if is_native:
                yield replace(plain, tools=self._tools.specs())
            first, *rest = _as_texts(plain.messages)
            told = first.content + self._tools.prompt(first.content)
            yield replace(plain, messages=[replace(first, content=told), *rest])
            return
        yield request
        if plain != request:
            yield plain


def _fitted(
    request: ChatRequest, model: ModelConfig | None, config: AgentNodeConfig, run: NodeRun
) -> ChatRequest:
    """Return a request with the options of a model."""
    said = model or _DEFAULT
    model_id = run.model_id(model.id if model else "")
    return replace(
        request,
        temperature=said.temperature,
        max_tokens=said.max_tokens,
        timeout_s=min(said.timeout, max(0.001, run.deadline.remaining_s)),
        options=model_options(model_id, model, config.output_schema),
    )


def _turns(asked: ModelAnswer, results: Sequence[str]) -> list[Message]:
    # Native calls are answered one by one, written ones in the person's place.
    if asked.is_native:
        pairs = zip(asked.calls, results, strict=True)
        answered = [Message("tool", text, (call,)) for call, text in pairs]
        return [Message("assistant", asked.text, asked.calls), *answered]
    return [Message("assistant", asked.text), Message("user", "\n".join(results))]


def _as_texts(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the turns for a model that takes no tools: a fallback may go on where one had them."""
    for message in messages:
        if message.role == "tool":
            yield Message("user", message.content)
        elif message.tool_calls:
            calls = [
                {"tool": one.name, "arguments": dict(one.arguments)} for one in message.tool_calls
            ]
            yield Message("assistant", json.dumps({"calls": calls}, ensure_ascii=False))
        else:
            yield message


def _without_form(request: ChatRequest) -> ChatRequest:
    if not any(name in request.options for name in _FORM):
        return request
    return replace(
        request, options={key: one for key, one in request.options.items() if key not in _FORM}
    )


def asked_again(asked: ModelAnswer, fault: str) -> ChatRequest:
    """Return the request for another answer, which says what was wrong with the first."""
    question = fill_prompt(prompt_file("repair_json"), {"reason": fault})
    turns = [Message("assistant", asked.text or "-"), Message("user", question)]
    return replace(asked.request, messages=[*asked.request.messages, *turns])
