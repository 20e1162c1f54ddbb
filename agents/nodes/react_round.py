"""One turn of a model that may call tools. In: a request. Out: calls, or an answer already told.

The first words of an answer are passed on at once, save those that may become JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from agents.core.pipeline import PipelineRun
from agents.core.prompt_file import prompt_file
from agents.core.react import CALLINGS
from agents.flows.model_options import model_options
from agents.nodes.pipeline_write import Teller, typed
from agents.nodes.react_calls import OPENINGS, calls_form, told_tools, written_calls
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import Message, ToolUse

# What a server answers with that does not take tools, or a form.
_REFUSED = (400, 404, 422, 501)
# Some say so by an error of their own, which another time may be one.
_PERHAPS = (500,)
# How Gemini ends where its model wrote a call that cannot be read.
_MALFORMED = frozenset({"malformed_function_call", "unexpected_tool_call"})


@dataclass(frozen=True, slots=True)
class Round:
    """What a model said. ``calls`` None: it answered; empty: it is ready to answer."""

    text: str
    calls: tuple[ToolUse, ...] | None
    is_native: bool
    tokens: int


async def ask_round(request: ChatRequest, teller: Teller, run: PipelineRun) -> Round:
    """Return the model's turn, its answer told by ``teller``; raise ProviderError.

    A server that refuses one way of calling tools is asked in the next one, now and from now on.
    """
    ways, is_certain = CALLINGS[CALLINGS.index(run.tools.calling) :], True
    for way in ways:
        try:
            said = await _heard(_offering(request, way, run), way, teller, run)
        except ProviderError as error:
            is_last = way == ways[-1] or run.config.tool_calling == "native"
            status, reason = error.params.get("status"), error.params.get("reason")
            is_refusal = status in (*_REFUSED, *_PERHAPS) or reason in _MALFORMED
            if is_last or not is_refusal or teller.raw:
                raise
            is_certain = is_certain and status in _REFUSED
            continue
        if is_certain:
            run.tools.learn(way)
        return said
    raise AssertionError("one way is always tried")


def _offering(request: ChatRequest, way: str, run: PipelineRun) -> ChatRequest:
    specs = run.tools.specs
    if not specs:
        return request
    if way == "native":
        return replace(request, tools=tuple(specs))
    first, *rest = request.messages
    told = f"{first.content}{prompt_file('react_tools')}{told_tools(specs)}"
    form = model_options(run.model_id, None, calls_form(specs)) if way == "form" else {}
    return replace(request, messages=[Message("system", told), *rest], options=form)


async def _heard(request: ChatRequest, way: str, teller: Teller, run: PipelineRun) -> Round:
    held, n_tokens = "", list[int]()
    calls: tuple[ToolUse, ...] = ()
    is_open = False
    pieces: Any = run.stream(request)
    async with aclosing(pieces):
        async for piece in typed(pieces):
            held += piece.text
            calls += piece.tool_calls
            n_tokens += [n for n in (piece.input_tokens, piece.output_tokens) if n is not None]
            is_open = is_open or (bool(held.strip()) and not held.lstrip().startswith(OPENINGS))
            if is_open:
                await teller.feed(held)
                held = ""
            if piece.notice:
                await run.emit("notice", {"step": "think", "text": piece.notice})
    text = teller.raw + held
    tokens = sum(n_tokens) or _estimate(request.messages, text, run)
    if calls:
        await teller.take_back()
        return Round(text, calls, True, tokens)
    names = {spec.name for spec in run.tools.specs}
    written = written_calls(text, names, is_lenient=way != "native") if names else None
    if written is not None:
        await teller.take_back()
        return Round(text, written, False, tokens)
    await teller.feed(held)
    await teller.finish()
    return Round(text, None, False, tokens)


def _estimate(messages: Sequence[Message], text: str, run: PipelineRun) -> int:
    """Return the tokens of a turn whose server does not say."""
    return run.count_tokens("\n".join([*(message.content for message in messages), text]))
