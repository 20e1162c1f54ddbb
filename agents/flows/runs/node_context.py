"""Node context: the models, sources, files, tools and events that a node of a run may use.

Answers of sources are cached by rights, question and options; model answers of an earlier worker
are taken from the log and not asked for again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agents.core.cited_answers import serialize_sources, verdicts_of
from agents.core.nodes import FileQuery, FlowOutcome, HttpCall, SourceQueries
from agents.core.source_configs import McpServerConfig
from agents.core.spoken_text import DRAFT, TOKEN, SpokenText
from agents.core.tool_calls import tool_error
from agents.flows.definition.source_results import tool_hits
from agents.flows.definition.state import node_outputs
from agents.flows.engine.inner_log import InnerLog, RunPlace, outputs_at
from agents.flows.runs.subflows import SubflowCall, run_subflow
from agents.runtime.mcp_client import call_mcp_tool, mcp_tools
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError, RAGError
from rag.core.hits import Hit
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatModel, ChatRequest
from rag.core.rag_node import RAGNodeData
from rag.core.tools import ToolSpec, call_tool, spec_of
from rag.core.types import ChatReply, Message, ToolUse
from rag.services.answers import RagNodeRequest, find_rag_node, run_rag_node
from rag.services.plugins import make_plugin
from rag.services.search import cache_region
from rag.services.sources import SourceCall, SourceContext, SourceOutcome, run_sources
from rag.services.threads import run_blocking, run_external, run_until
from rag.services.tokens import count_tokens
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import chat_for
from rag.stages.citing.verify import VerifiedAnswer

if TYPE_CHECKING:
    from agents.flows.runs.event_log import RunEventLog

log = logging.getLogger(__name__)
_NAMED = re.compile(r"\{([^\W\d]\w*)\}")


def query_sources(*, asked: SourceQueries, scope: Scope, deadline: Deadline) -> list[SourceOutcome]:
    """Return outcomes in the order of the calls; only what succeeded is remembered.

    What is remembered is found again by the same rights, question, options and named values
    alone. Until its time is over it may be older than the source.
    """
    names = {
        call.name: _name(call, asked, scope) for call in asked.calls if asked.ttls_s.get(call.name)
    }
    found: dict[str, SourceOutcome] = {}
    for call in asked.calls:
        kept = cache_region("results").find(names[call.name]) if call.name in names else None
        if kept is not None:
            found[call.name] = _outcome(call, json.loads(kept))
    calls = [call for call in asked.calls if call.name not in found]
    fresh = (
        run_sources(
            calls=calls, text=asked.text, scope=scope, values=asked.values, deadline=deadline
        )
        if calls
        else []
    )
    for outcome in fresh:
        found[outcome.name] = outcome
        if outcome.error is None and outcome.name in names:
            cache_region("results").keep(
                names[outcome.name], _bytes(outcome), asked.ttls_s[outcome.name]
            )
    return [found[call.name] for call in asked.calls]


def _name(call: SourceCall, asked: SourceQueries, scope: Scope) -> str:
    options = json.dumps(call.options, sort_keys=True, ensure_ascii=False, default=str)
    # For whom is asked counts always, also where a source looks it up without naming it.
    names = {*_NAMED.findall(options), "token_id"}
    values = {name: asked.values.get(name) for name in names if name in asked.values}
    parts: Mapping[str, Any] = {
        "kind": "flow source",
        "plugin": call.plugin,
        "options": options,
        "text": asked.text,
        "values": values,
        "scope": scope.fingerprint,
    }
    raw = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return cache_region("results").seal.name(raw.encode("utf-8", "surrogatepass"))


def _bytes(outcome: SourceOutcome) -> bytes:
    kept = {"hits": [hit.as_dict() for hit in outcome.hits], "notes": list(outcome.notes)}
    return json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _outcome(call: SourceCall, kept: Mapping[str, Any]) -> SourceOutcome:
    hits = tuple(map(Hit.from_dict, kept["hits"]))
    return SourceOutcome(
        name=call.name,
        plugin=call.plugin,
        status="ok" if hits else "empty",
        hits=hits,
        notes=tuple(kept["notes"]),
        attempts=0,
    )


def answer_from_files(*, asked: FileQuery, scope: Scope, deadline: Deadline) -> dict[str, Any]:
    """Return query, documents, documentCount, mode, answer and perhaps citations.

    A saved node must be of whoever ``scope`` is, and keeps what was asked last. Raises RAGError.
    """
    node = find_rag_node(scope=scope, node_id=asked.node_id) if asked.node_id else None
    saved: Mapping[str, Any] = node.node_data.as_wire() if node else {}
    data = RAGNodeData.from_wire(_joined(saved, asked.data))
    own = Deadline(min(asked.timeout_s, max(0.001, deadline.remaining_s)))
    with deadline.on_cancel(own.cancel):
        run = RagNodeRequest(data=data, context=asked.context, node=node)
        return run_rag_node(run=run, scope=scope, deadline=own)


def _joined(saved: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    mappings = {**(saved.get("inputMappings") or {}), **(said.get("inputMappings") or {})}
    # What a saved node does not say is what the person said.
    mappings.setdefault("query", "{{user_query}}")
    return {**saved, **said, "inputMappings": mappings}


def fetch_address(*, call: HttpCall, deadline: Deadline) -> dict[str, Any]:
    """Return status, content type and body of a guarded request."""
    ports, request = SourceContext(), call.request
    if call.secret:
        value = ports.secret(call.secret, url=request.url).strip()
        name, value = (
            ("Authorization", f"Bearer {value}")
            if not call.secret_header
            else (call.secret_header, value)
        )
        request = replace(request, headers={**request.headers, name: value})
    own = Deadline(min(call.timeout_s, max(0.001, deadline.remaining_s)))
    with deadline.on_cancel(own.cancel):
        reply = ports.fetch(request, deadline=own)
    kind = reply.headers.get("content-type", "")
    text = reply.body.decode("utf-8", "replace")
    try:
        body = json.loads(text) if "json" in kind else text
    except (ValueError, RecursionError):
        body = text
    return {"status": reply.status, "content_type": kind, "body": body}


# Who reads a stream sees no difference to single pieces, and each costs a row.
PIECE_S = 0.1


async def stream_reply(
    model: ChatModel,
    request: ChatRequest,
    emit: Callable[[str, str], Awaitable[None]],
    spoken: SpokenText,
) -> ChatReply:
    """Return the answer; ``emit`` is given kinds and texts, the first at once, then by tenths."""
    stream: Any = model.stream(request)
    texts, calls, last = list[str](), tuple[ToolUse, ...](), ChatReply("")
    waiting, told_at = defaultdict[str, str](str), 0.0
    async with aclosing(stream):
        async for last in stream:
            texts.append(last.text)
            calls += last.tool_calls
            for kind, text in spoken.feed(last.text):
                waiting[kind] += text
            if waiting and time.monotonic() - told_at >= PIECE_S:
                await _emptied(waiting, emit)
                told_at = time.monotonic()
    for kind, text in spoken.finish(is_call=bool(calls) or spoken.is_call("".join(texts))):
        waiting[kind] += text
    await _emptied(waiting, emit)
    return replace(last, text="".join(texts), model=last.model or model.id, tool_calls=calls)


async def _emptied(waiting: dict[str, str], emit: Callable[[str, str], Awaitable[None]]) -> None:
    while waiting:
        await emit(*waiting.popitem())


def _reply_of(record: Mapping[str, Any]) -> ChatReply:
    """Return a recorded answer."""
    calls = tuple(ToolUse(**one) for one in record.get("tool_calls") or ())
    return ChatReply(**{**record, "tool_calls": calls})


def _ms_since(started: float) -> float:
    return round((time.monotonic() - started) * 1e3, 1)


def _told_turn(message: Message) -> str:
    """Return a turn as whoever looks into the run reads it: calls as JSON."""
    if message.role != "assistant" or not message.tool_calls:
        return message.content
    calls = [{"tool": one.name, "arguments": dict(one.arguments)} for one in message.tool_calls]
    return f"{message.content}\n{json.dumps(calls, ensure_ascii=False)}".strip()


# So long a tool may take, whatever else a run has to do.
TOOL_TIMEOUT_S = 300.0


_PUBLIC = ("model", "input_tokens", "output_tokens", "notice")


class FlowNodeContext:
    """``agents.core.nodes.NodeRun`` on our own services; answers of the past are used again."""

    def __init__(self, log: RunEventLog, node: str, visit: int, place: RunPlace) -> None:
        self.node, self.scope, self.deadline = node, log.scope, log.deadline
        own = log.run.version.prompts
        self.prompts: Mapping[str, str] = own if place.prompts is None else place.prompts
        # Under which name the log has it.
        self._place, self._name = place, place.prefix + node
        decided = log.decisions.get((self._name, visit)) or {}
        self.decision: str | None = decided.get("decision")
        self.comment: str = decided.get("comment") or ""
        self.edited: Mapping[str, Any] = decided.get("values") or {}
        self.passages = log.passages
        self._log, self._visit, self._model, self._n_asked = log, visit, log.run.model, 0
        # What the last call of this visit was sent: of the next one only what is new is kept.
        self._sent: list[Message] = []

    def count_tokens(self, text: str) -> int:
        """Return the number of o200k tokens."""
        return count_tokens(text)

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Store an event of this node and tell of it."""
        # What is said inside an iteration is not for people.
        kind = DRAFT if kind == TOKEN and self._place.is_quiet else kind
        await self._log.append(kind, self._name, self._visit, data=data)

    def model_id(self, name: str) -> str:
        """Return the model of the run where it has one, else the named or configured one."""
        return self._model or name or wiring.chat_model().id

    async def takes_tools(self, name: str) -> bool:
        """Return whether the model takes the tools of a request."""
        model = await run_blocking(wiring.chat_model, self._model or name)
        return bool(getattr(model, "has_tools", False))

    async def ask_model(
        self, name: str, request: ChatRequest, spoken: SpokenText | None = None
    ) -> ChatReply:
        """Return the answer, told piece by piece; one that this visit has had is not asked for."""
        spoken = spoken or SpokenText()
        known = self._log.answers[self._name, self._visit]
        trace = self._trace(request)
        self._n_asked += 1
        if self._n_asked <= len(known):
            reply = _reply_of(known[self._n_asked - 1])
            spoken.take(reply.text, is_call=bool(reply.tool_calls))
            return reply
        started = time.monotonic()
        try:
            reply = await self._reply(name, request, spoken)
        except RAGError as error:
            data = {"error": error.as_dict(), "duration_ms": _ms_since(started)}
            await self._log.append("model_failed", self._name, self._visit, data=data, trace=trace)
            raise
        record = asdict(reply)
        data = {key: record[key] for key in _PUBLIC}
        data["duration_ms"] = _ms_since(started)
        await self._log.append(
            "model_answer", self._name, self._visit, data=data, record=record, trace=trace
        )
        return reply

    async def _reply(self, name: str, request: ChatRequest, spoken: SpokenText) -> ChatReply:
        try:
            async with asyncio.timeout(request.timeout_s):
                model = await run_blocking(
                    chat_for, scope=self.scope, kind="flow", model=self._model or name
                )
                return await stream_reply(model, request, self._emit_text, spoken)
        except TimeoutError:
            raise ProviderTimeoutError(
                "The model of “{node}” did not answer within {timeout_s} s.",
                hint="Allow more by timeout, or choose a faster model.",
                node=self.node,
                timeout_s=f"{request.timeout_s:g}",
            ) from None

    def _trace(self, request: ChatRequest) -> dict[str, Any]:
        """Return what a model is sent, without what the call before was sent too."""
        n_before = 0
        for before, now in zip(self._sent, request.messages, strict=False):
            if before != now:
                break
            n_before += 1
        self._sent = list(request.messages)
        new = request.messages[n_before:]
        return {
            "messages": [{"role": one.role, "content": _told_turn(one)} for one in new],
            "n_before": n_before,
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "options": dict(request.options),
        }

    async def ask_sources(self, asked: SourceQueries) -> list[SourceOutcome]:
        """Return one outcome per call, asked on other threads."""
        return await run_external(
            query_sources, asked=asked, scope=self.scope, deadline=self.deadline
        )

    async def ask_files(self, asked: FileQuery) -> dict[str, Any]:
        """Return what the files say, asked on another thread; a recorded answer is used again."""
        if known := self._log.answers[self._name, self._visit]:
            return dict(known[0]["output"])
        started = time.monotonic()
        output = await run_external(
            answer_from_files, asked=asked, scope=self.scope, deadline=self.deadline
        )
        data = {"mode": output["mode"], "duration_ms": _ms_since(started)}
        await self._log.append(
            "model_answer", self._name, self._visit, data=data, record={"output": output}
        )
        return output

    async def fetch(self, call: HttpCall) -> dict[str, Any]:
        """Return what an address answers; the call is told as one of a tool."""
        started = time.monotonic()
        told = {"tool": call.request.method, "arguments": {"url": call.request.url}}
        try:
            answer = await run_external(fetch_address, call=call, deadline=self.deadline)
        except RAGError as error:
            await self.emit("tool", {**told, "error": error.as_dict()})
            raise
        shown = {key: answer[key] for key in ("status", "content_type")}
        await self.emit("tool", {**told, "answer": shown, "duration_ms": _ms_since(started)})
        return answer

    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what each node has given in this run so far."""
        return node_outputs(outputs_at(self._place, self._log.updates))

    def inside(self) -> InnerLog:
        """Return the log of what this node runs."""
        place = self._place.inside(self.node, self._visit, is_quiet=True)
        return InnerLog(self._log, place)

    async def run_flow(
        self, name: str, message: str, given: Mapping[str, Any], state: Mapping[str, Any]
    ) -> FlowOutcome | None:
        """Return what another flow comes to, None while a person must decide in it."""
        place = self._place.inside(self.node, self._visit)
        call = SubflowCall(name, message, given, state)
        return await run_subflow(self._log, place, (self._name, self._visit), call)

    def tool_spec(self, name: str) -> ToolSpec:
        """Return what a model is told of a tool plugin."""
        return spec_of(PLUGINS.get("tool", name))

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool's answer, worked out on another thread for the run's own scope."""

        def call(deadline: Deadline) -> dict[str, Any]:
            tool, ports = make_plugin(kind="tool", name=name), SourceContext()
            return call_tool(tool, arguments, scope=self.scope, deadline=deadline, ports=ports)

        return await self._told(name, arguments, call)

    async def mcp_tools(self, server: McpServerConfig) -> tuple[ToolSpec, ...]:
        """Return what a server's tools are."""
        return await run_external(mcp_tools, server=server, deadline=self.deadline)

    async def call_mcp(
        self, server: McpServerConfig, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the answer of a server's tool."""

        def call(deadline: Deadline) -> dict[str, Any]:
            return call_mcp_tool(server=server, name=name, arguments=arguments, deadline=deadline)

        return await self._told(name, arguments, call)

    async def _told(
        self, name: str, arguments: Mapping[str, Any], call: Callable[[Deadline], dict[str, Any]]
    ) -> dict[str, Any]:
        """Return what a call comes to; its answer is told, and can be cited."""
        started = time.monotonic()
        own = Deadline(min(TOOL_TIMEOUT_S, max(0.001, self.deadline.remaining_s)))
        with self.deadline.on_cancel(own.cancel):
            done = await run_until(partial(call, own), name=name, deadline=own)
        fault = done.exception()
        if fault is not None:
            raise tool_error(name, fault) from fault
        answer = done.result()
        spent_ms = _ms_since(started)
        passages = serialize_sources(self.passages.number(tool_hits(name, answer)))
        event = {"tool": name, "arguments": dict(arguments), "answer": answer}
        await self.emit("tool", {**event, "duration_ms": spent_ms, "passages": passages})
        return answer

    def keep_verdicts(self, answer: VerifiedAnswer) -> None:
        """Keep them for the event of the visit's end."""
        self._log.verdicts[self._name, self._visit] = verdicts_of(answer)

    async def _emit_text(self, kind: str, text: str) -> None:
        await self.emit(kind, {"text": text})
