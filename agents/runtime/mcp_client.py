"""MCP client: tools of an external server over streamable HTTP, guarded, bounded and not trusted.

What a server says of its tools is shown to models with its name, cut and checked; what they
answer is data. Only tools that the author listed are offered.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agents.core.parse_output import schema_error
from agents.core.source_configs import McpServerConfig
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, ProviderError, UnknownNameError
from rag.core.sources import FetchReply, FetchRequest
from rag.core.tools import ToolSpec
from rag.services.sources import SourceContext

PROTOCOL = "2025-06-18"
MAX_BYTES, MAX_SCHEMA, MAX_DESCRIPTION, MAX_ERROR = 1_000_000, 20_000, 500, 500
MAX_PAGES, MAX_DEPTH = 5, 12
# So long what a server offers is not asked for again.
FRESH_S = 60.0
_KEPT: dict[str, tuple[float, tuple[ToolSpec, ...]]] = {}


def mcp_tools(*, server: McpServerConfig, deadline: Deadline) -> tuple[ToolSpec, ...]:
    """Return the listed tools of a server, as ``SERVER__TOOL``.

    Raises ProviderError where it fails, lacks one of them, or describes it by no schema.
    """
    name = server.model_dump_json()
    told_at, specs = _KEPT.get(name, (0.0, ()))
    if specs and time.monotonic() - told_at < FRESH_S:
        return specs
    session = _McpSession(server, deadline)
    offered = {one["name"]: one for one in session.tools() if isinstance(one.get("name"), str)}
    for tool in server.tools:
        if tool not in offered:
            known = ", ".join(sorted(offered)[:50]) or "none"
            raise ProviderError(
                "The MCP server “{name}” has no tool “{tool}”.",
                hint="It has: {known}.",
                name=server.name,
                tool=tool,
                known=known[:MAX_ERROR],
            )
    specs = tuple(_spec(server, offered[tool]) for tool in server.tools)
    _KEPT[name] = (time.monotonic(), specs)
    return specs


def call_mcp_tool(
    *, server: McpServerConfig, name: str, arguments: Mapping[str, Any], deadline: Deadline
) -> dict[str, Any]:
    """Return what a tool (``SERVER__TOOL``) answers: ``text``, and perhaps ``data``.

    Raises InvalidInputError for arguments that do not fit its schema, ProviderError where it
    fails, ProviderTimeoutError where it does not answer.
    """
    specs = {one.name: one for one in mcp_tools(server=server, deadline=deadline)}
    if name not in specs:
        raise UnknownNameError("tool", name, specs)
    if fault := schema_error(specs[name].parameters, arguments):
        raise InvalidInputError(
            "The arguments of {name} do not fit: {reason}", name=name, reason=fault
        )
    tool = server.tool_of(name)
    session = _McpSession(server, deadline)
    found = session.ask("tools/call", {"name": tool, "arguments": dict(arguments)})
    text = "\n".join(_texts(found.get("content")))
    if found.get("isError"):
        raise ProviderError(
            "The tool {name} failed: {reason}", name=name, reason=text[:MAX_ERROR] or "-"
        )
    data = found.get("structuredContent")
    return {"text": text, **({"data": data} if isinstance(data, dict) else {})}


def _spec(server: McpServerConfig, tool: Mapping[str, Any]) -> ToolSpec:
    given = tool.get("inputSchema")
    schema: dict[str, Any] = given if isinstance(given, dict) else {"type": "nothing"}
    is_object = schema.get("type", "object") == "object"
    if not is_object or not isinstance(schema.get("properties", {}), dict) or not _is_small(schema):
        raise ProviderError(
            "The MCP server “{name}” describes its tool “{tool}” by no schema of an object.",
            hint="Leave the tool out, or ask whoever runs the server.",
            name=server.name,
            tool=str(tool["name"]),
        )
    said = " ".join(str(tool.get("description") or "").split())[:MAX_DESCRIPTION]
    text = f"(as the server {server.name} describes it) {said}"
    return ToolSpec(server.name_of(tool["name"]), text, {"type": "object", **schema})


def _is_small(schema: Mapping[str, Any]) -> bool:
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return False
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(value, (dict, list)):
            waiting += [(one, depth + 1) for one in inner]
    return len(json.dumps(schema)) <= MAX_SCHEMA


def _texts(content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
        elif isinstance(part, dict):
            # Pictures and sounds are for no model of a text.
            yield f"({str(part.get('type'))[:40]})"


class _McpSession:
    """One session with a server: greeted when made, each question a request of its own."""

    def __init__(self, server: McpServerConfig, deadline: Deadline) -> None:
        self._server = server
        self._deadline = Deadline(min(server.timeout, max(0.001, deadline.remaining_s)))
        self._outer, self._ids = deadline, itertools.count(1)
        self._headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
        }
        if server.secret:
            value = SourceContext().secret(server.secret, url=server.mcp).strip()
            self._headers["Authorization"] = f"Bearer {value}"
        told = {"name": "citable", "version": "1"}
        greeting = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": told}
        self.ask("initialize", greeting)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tools(self) -> Iterator[Mapping[str, Any]]:
        """Yield what the server offers, page by page."""
        cursor: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            found = self.ask("tools/list", cursor)
            tools = found.get("tools")
            yield from (
                (one for one in tools if isinstance(one, dict)) if isinstance(tools, list) else ()
            )
            if not found.get("nextCursor"):
                return
            cursor = {"cursor": found["nextCursor"]}

    def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of a request; raise ProviderError for an error or for none."""
        number = next(self._ids)
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params)}
        reply = self._send(asked)
        if session := reply.headers.get("mcp-session-id"):
            self._headers["Mcp-Session-Id"] = session[:200]
        for message in _messages(reply):
            if message.get("id") != number:
                continue
            if isinstance(message.get("result"), dict):
                return dict(message["result"])
            error = message.get("error")
            reason = str(error.get("message") if isinstance(error, dict) else error)
            raise self._fault(reason[:MAX_ERROR])
        raise self._fault("it gave no answer that can be read")

    def _send(self, message: Mapping[str, Any]) -> FetchReply:
        request = FetchRequest(
            url=self._server.mcp,
            method="POST",
            headers=self._headers,
            json=dict(message),
            max_bytes=MAX_BYTES,
            retries=0,
        )
        with self._outer.on_cancel(self._deadline.cancel):
            return SourceContext().fetch(request, deadline=self._deadline)

    def _fault(self, reason: str) -> ProviderError:
        return ProviderError(
            "The MCP server “{name}” failed: {reason}", name=self._server.name, reason=reason
        )


def _messages(reply: FetchReply) -> Iterator[Mapping[str, Any]]:
    text = reply.body.decode("utf-8", "replace")
    if "event-stream" in reply.headers.get("content-type", ""):
        blocks = re.split(r"\r?\n\r?\n", text)
        parts = ["\n".join(re.findall(r"(?m)^data: ?(.*?)\r?$", block)) for block in blocks]
    else:
        parts = [text]
    for part in parts:
        try:
            found = json.loads(part)
        except (ValueError, RecursionError):
            continue
        yield from (
            one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)
        )
