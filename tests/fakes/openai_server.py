"""An OpenAI-compatible server on 127.0.0.1, with one mode for each odd behaviour seen in others.

In: requests of the openai SDK. Out: deterministic vectors and scripted answers.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.fakes.loopback import Call, LoopbackServer, Reply
from tests.fakes.vectors import hashed_vector

ODD_BODIES = ("html", "text", "not_json", "no_data", "wrong_kind", "redirect")
ODD_ROWS = ("base64", "shuffled", "missing", "extra", "same_index", "no_index")
ODD_NUMBERS = ("nan", "null", "zero", "fixed_size")
EMBEDDING_MODES = frozenset(("plain", *ODD_BODIES, *ODD_ROWS, *ODD_NUMBERS))
HTML = b"<!DOCTYPE html><html><body>Please log in to the network</body></html>"


@dataclass
class Script:
    """How the chat model answers. ``pieces`` are sent one by one when streaming, ``pause_s``
    apart; ``ending`` is done, cut (in mid-stream), quiet (no [DONE], no finish_reason), error (an
    error event), hang, or garbage."""

    pieces: tuple[Any, ...] = ("The warranty ", "lasts ", "two years [1].")
    reasoning: tuple[str, ...] = ()
    reasoning_field: str = "reasoning_content"
    finish_reason: str | None = "stop"
    refusal: str = ""
    has_usage: bool = True
    pause_s: float = 0.0
    ending: str = "done"
    pings: int = 0
    html: bool = False
    body: Any = None
    # Calls of functions: whole for an answer, and as deltas, one by one, for a stream.
    calls: tuple[dict[str, Any], ...] = ()
    call_deltas: tuple[dict[str, Any], ...] = ()


class OpenAIServer(LoopbackServer):
    """``url`` is its base URL. With ``key`` set, any other gets 401. ``native_dim`` is the size
    of vectors when none is asked for; ``strict_dim`` refuses to be asked, as vLLM does for most
    models; ``new_dialect`` refuses temperature and max_tokens, as reasoning models do;
    ``takes_tools`` False refuses functions. ``respond`` chooses the script by the request."""

    def __init__(self) -> None:
        super().__init__()
        self.key = ""
        self.mode = "plain"
        self.native_dim = 16
        self.strict_dim = False
        self.new_dialect = False
        self.max_texts = 2048
        self.takes_tools = True
        self.chat = Script()
        self.respond: Callable[[dict[str, Any]], Script] | None = None
        self.route("POST", "/v1/embeddings", self._embeddings)
        self.route("POST", "/v1/chat/completions", self._chat)
        self.route("POST", "/elsewhere/embeddings", self._embeddings)

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def answer(self, call: Call) -> Reply:
        given = call.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key and given != self.key:
            # OpenAI itself masks the key; servers are known that quote all of it.
            return _error(401, f"Incorrect API key provided: {given}.", code="invalid_api_key")
        return super().answer(call)

    def _embeddings(self, call: Call) -> Reply:
        asked = call.json
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        if len(texts) > self.max_texts or not all(texts):
            return _error(400, f"'input' must hold 1 to {self.max_texts} texts, none empty.")
        if self.strict_dim and "dimensions" in asked:
            return _error(400, f"Model {asked['model']} does not support matryoshka.")
        if self.mode not in EMBEDDING_MODES:
            raise ValueError(f"unknown mode {self.mode}")
        odd = {
            "html": Reply(HTML, headers={"Content-Type": "text/html"}),
            "text": Reply(b"upstream is warming up", headers={"Content-Type": "text/plain"}),
            "not_json": Reply(b'{"data": [', headers={"Content-Type": "application/json"}),
            "no_data": Reply({"object": "list"}),
            "wrong_kind": Reply({"data": {"embedding": [1.0]}}),
            "redirect": Reply(status=307, headers={"Location": "/elsewhere/embeddings"}),
        }
        if self.mode in odd:
            return odd[self.mode]
        size = self.native_dim if self.mode == "fixed_size" else None
        dim = size or asked.get("dimensions", self.native_dim)
        items = [self._item(index, text, dim, asked) for index, text in enumerate(texts)]
        usage = {"prompt_tokens": sum(map(len, texts)), "total_tokens": sum(map(len, texts))}
        data = self._spoilt(items)
        return Reply({"object": "list", "data": data, "model": asked["model"], "usage": usage})

    def _item(self, index: int, text: str, dim: int, asked: dict[str, Any]) -> dict[str, Any]:
        row: Any = hashed_vector(text, dim, length=3.0)
        if self.mode == "base64" or asked.get("encoding_format") == "base64":
            row = base64.b64encode(struct.pack(f"<{dim}f", *row)).decode()
        return {"object": "embedding", "index": index, "embedding": row}

    def _spoilt(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        first = items[0]["embedding"]
        if self.mode == "shuffled":
            return items[::-1]
        if self.mode == "missing":
            return items[:-1]
        if self.mode == "extra":
            return [*items, {**items[-1], "index": len(items)}]
        if self.mode == "same_index":
            return [{**item, "index": 0} for item in items]
        if self.mode == "no_index":
            return [{"embedding": item["embedding"]} for item in items]
        replaced = {"nan": float("nan"), "null": None}
        if self.mode in replaced:
            items[0]["embedding"] = [replaced[self.mode], *first[1:]]
        if self.mode == "zero":
            items[0]["embedding"] = [0.0] * len(first)
        return items

    def _chat(self, call: Call) -> Reply:
        asked, script = call.json, self.chat
        if "tools" in asked and not self.takes_tools:
            return _error(400, f"{asked['model']} does not support tools")
        script = self.respond(asked) if self.respond else script
        for name, value in (("max_tokens", None), ("temperature", 1)) if self.new_dialect else ():
            if name in asked and asked[name] != value:
                code = "unsupported_parameter" if value is None else "unsupported_value"
                return _error(400, f"'{name}' is not supported here.", code=code, param=name)
        if script.html:
            return Reply(HTML, headers={"Content-Type": "text/html"})
        if script.body is not None:
            return Reply(script.body, headers={"Content-Type": "application/json"})
        if asked.get("stream"):
            events = self._events(asked, script)
            return Reply(headers={"Content-Type": "text/event-stream"}, events=events)
        text = "".join(script.pieces) if script.pieces else None
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if script.reasoning:
            message[script.reasoning_field] = "".join(script.reasoning)
        if script.refusal:
            message["refusal"] = script.refusal
        if script.calls:
            message["tool_calls"] = list(script.calls)
        choice = {"index": 0, "message": message, "finish_reason": script.finish_reason}
        body = {"id": "c1", "object": "chat.completion", "model": asked["model"]}
        usage = {"usage": _usage(script)} if script.has_usage else {}
        return Reply({**body, "choices": [choice], **usage})

    def _events(self, asked: dict[str, Any], script: Script) -> Iterator[bytes | float | str]:
        yield _event(asked, {"role": "assistant", "content": ""})
        for thought in script.reasoning:
            yield _event(asked, {script.reasoning_field: thought})
        for piece in script.pieces:
            if script.pause_s:
                yield script.pause_s
            yield _event(asked, {"content": piece})
        if script.refusal:
            yield _event(asked, {"refusal": script.refusal})
        for delta in script.call_deltas:
            yield _event(asked, {"tool_calls": [delta]})
        for _ in range(script.pings):
            yield b": keep-alive\n\n"
            yield 0.02
        if script.ending == "hang":
            yield 30.0
        if script.ending == "cut":
            yield "cut"
        if script.ending == "garbage":
            yield b"data: {broken\n\n"
        if script.ending == "error":
            yield b'data: {"error": {"message": "the GPU fell over", "code": 500}}\n\n'
        if script.ending != "done":
            return
        yield _event(asked, {}, script.finish_reason)
        if script.has_usage and asked.get("stream_options", {}).get("include_usage"):
            body = {"model": asked["model"], "choices": [], "usage": _usage(script)}
            yield f"data: {json.dumps(body)}\n\n".encode()
        yield b"data: [DONE]\n\n"


def _event(asked: dict[str, Any], delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    body = {"object": "chat.completion.chunk", "model": asked["model"], "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n".encode()


def _usage(script: Script) -> dict[str, int]:
    n_output = len(script.pieces) + len(script.reasoning)
    return {"prompt_tokens": 11, "completion_tokens": n_output, "total_tokens": 11 + n_output}


def _error(status: int, message: str, *, code: str | None = None, param: str = "") -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Reply({"error": error}, status)
