"""Fake Gemini on 127.0.0.1 for the google-genai SDK as it is: embeddings, generateContent, files.

Takes requests in either key case, under v1 and v1beta, and answers in camelCase, shaped as was
seen on the wire. A question with files or stores is answered from what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fakes.gemini_files import GeminiFiles
from tests.fakes.gemini_grounded import grounded_pieces
from tests.fakes.gemini_wire import VERSION as VERSION
from tests.fakes.gemini_wire import camel as camel
from tests.fakes.gemini_wire import error as error
from tests.fakes.gemini_wire import parts_of
from tests.fakes.gemini_wire import retry_info as retry_info
from tests.fakes.loopback import Call, LoopbackServer, Reply
from tests.fakes.vectors import hashed_vector

MODEL = "(?P<model>[^/:]+)"
FULL_DIM = 3072
MAX_BATCH = 100
EMBEDDING_MODES = frozenset(
    ("plain", "missing", "no_embeddings", "wrong_size", "nan", "html", "empty")
)


@dataclass
class Script:
    """How the model answers. ``pieces`` and ``thoughts`` are parts, sent one by one when
    streaming, ``pause_s`` apart. ``kind``: answer, blocked, no_candidates, html, empty, or text
    (not JSON). ``usage`` overrules counts. ``ending``: done, cut (in mid-event), drop (the connection), quiet (no
    finishReason), error (an error event), ping (a comment, which the SDK does not bear), hang."""

    pieces: tuple[str, ...] = ("保固期", "為兩年 [1]。")
    thoughts: tuple[str, ...] = ()
    finish_reason: str = "STOP"
    kind: str = "answer"
    pause_s: float = 0.0
    ending: str = "done"
    extra: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    # Parts with functionCall, after the pieces.
    calls: tuple[dict[str, Any], ...] = ()


class GeminiServer(LoopbackServer):
    """``url`` is the base URL for the SDK; ``key`` is the only one that is let in; ``files`` are
    its stores and files with their modes. ``chat`` is what it answers where it is asked neither
    about stores nor about files; there only its pieces are replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.key = "test-key"
        self.mode = "plain"
        self.chat = Script()
        self.files = GeminiFiles(self)
        self.respond: Callable[[dict[str, Any]], Script] | None = None
        models = f"{VERSION}/models/{MODEL}"
        self.route("POST", f"{models}:embedContent", self._embed)
        self.route("POST", f"{models}:batchEmbedContents", self._embed_batch)
        self.route("POST", f"{models}:generateContent", self._generate)
        self.route("POST", f"{models}:streamGenerateContent", self._stream)
        self.route("POST", f"{models}:countTokens", self._count)

    @property
    def url(self) -> str:
        return self.origin

    def answer(self, call: Call) -> Reply:
        given = call.headers.get("x-goog-api-key", "")
        # The bytes of an upload come without a key; its start request had one.
        is_bytes = "x-goog-upload-offset" in call.headers
        if not given and not is_bytes:
            return error(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers.")
        if given != self.key and not is_bytes:
            info = {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
            }
            return error(400, "INVALID_ARGUMENT", "API key not valid.", [info])
        reply = super().answer(call)
        if reply.status == 404 and "no route" in str(reply.body):
            return error(404, "NOT_FOUND", f"{call.path} is not found for this API version.")
        return reply

    def _embed(self, call: Call) -> Reply:
        vector = _vector(camel(call.json))
        return vector if isinstance(vector, Reply) else Reply({"embedding": {"values": vector}})

    def _embed_batch(self, call: Call) -> Reply:
        asked = camel(call.json).get("requests", [])
        if self.mode not in EMBEDDING_MODES:
            raise ValueError(f"unknown mode {self.mode}")
        if not 1 <= len(asked) <= MAX_BATCH:
            return error(400, "INVALID_ARGUMENT", f"A batch holds 1 to {MAX_BATCH} requests.")
        if self.mode in ("html", "empty"):
            body = b"<html>login</html>" if self.mode == "html" else b""
            return Reply(body, headers={"Content-Type": "text/html"})
        vectors = [_vector(request) for request in asked]
        wrong = next((vector for vector in vectors if isinstance(vector, Reply)), None)
        if wrong:
            return wrong
        rows = [{"values": vector} for vector in vectors]
        if self.mode == "missing":
            rows.pop()
        if self.mode == "wrong_size":
            rows[-1] = {"values": [1.0, 2.0]}
        if self.mode == "nan":
            rows[0]["values"][0] = float("nan")  # type: ignore[index]
        return Reply({} if self.mode == "no_embeddings" else {"embeddings": rows})

    def _generate(self, call: Call) -> Reply:
        script = self._script(call, is_stream=False)
        if isinstance(script, Reply):
            return script
        if script.kind in ("html", "text", "empty"):
            bodies = {"html": b"<html>login</html>", "text": b"{oops", "empty": b""}
            return Reply(bodies[script.kind], headers={"Content-Type": "text/html"})
        parts = [{"text": text, "thought": True} for text in script.thoughts]
        parts += [{"text": text} for text in script.pieces]
        parts += script.calls
        return Reply(_response(script, parts, is_last=True))

    def _stream(self, call: Call) -> Reply:
        if call.query.get("alt") != "sse":
            return error(400, "INVALID_ARGUMENT", "This server streams as alt=sse only.")
        script = self._script(call, is_stream=True)
        if isinstance(script, Reply):
            return script
        if script.kind == "html":
            return Reply(b"<html>login</html>", headers={"Content-Type": "text/html"})
        headers = {"Content-Type": "text/event-stream"}
        return Reply(headers=headers, events=_events(script))

    def _script(self, call: Call, *, is_stream: bool) -> Script | Reply:
        asked = camel(call.json)
        if self.respond:
            return self.respond(asked)
        is_plain = self.chat.kind == "answer" and self.chat.pieces == Script.pieces
        found = grounded_pieces(self.files, asked, is_stream=is_stream) if is_plain else None
        if found is None or isinstance(found, Reply):
            return found or self.chat
        return replace(self.chat, pieces=found.pieces, extra=found.extra, usage=found.usage)

    def _count(self, call: Call) -> Reply:
        texts = [part.get("text", "") for part in parts_of(camel(call.json))]
        return Reply({"totalTokens": len("".join(texts).split())})


def _vector(request: dict[str, Any]) -> list[float] | Reply:
    settings = {**request, **request.get("embedContentConfig", {})}
    dim = settings.get("outputDimensionality", FULL_DIM)
    if not 1 <= dim <= FULL_DIM:
        return error(400, "INVALID_ARGUMENT", f"outputDimensionality must be 1 to {FULL_DIM}.")
    text = "".join(part.get("text", "") for part in request.get("content", {}).get("parts", []))
    if not text:
        return error(400, "INVALID_ARGUMENT", "content is required.")
    # Only full-size vectors come normalised; a client that forgets the rest must be seen.
    return hashed_vector(text, dim, length=1.0 if dim == FULL_DIM else 0.7)


def _response(script: Script, parts: list[dict[str, Any]], *, is_last: bool) -> dict[str, Any]:
    if script.kind == "blocked":
        return {
            "promptFeedback": {"blockReason": "SAFETY"},
            "usageMetadata": {"promptTokenCount": 7},
        }
    n_answer, n_thoughts = len(script.pieces), len(script.thoughts)
    usage = {"promptTokenCount": 7, "totalTokenCount": 7 + n_answer + n_thoughts}
    usage |= {"candidatesTokenCount": n_answer} if n_answer else {}
    usage |= {"thoughtsTokenCount": n_thoughts} if n_thoughts else {}
    usage |= script.usage
    common = {"usageMetadata": usage, "modelVersion": "gemini-fake", "responseId": "r1"}
    if script.kind == "no_candidates":
        return common
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model"}}
    if parts:
        candidate["content"]["parts"] = parts
    if is_last and script.finish_reason:
        candidate |= {"finishReason": script.finish_reason, **script.extra}
    return {"candidates": [candidate], **common}


def _events(script: Script) -> Iterator[bytes | float | str]:
    parts = [{"text": text, "thought": True} for text in script.thoughts]
    parts += [{"text": text} for text in script.pieces]
    parts += script.calls
    for number, part in enumerate(parts, 1):
        if script.pause_s:
            yield script.pause_s
        is_last = number == len(parts) and script.ending == "done"
        yield _event(_response(script, [part], is_last=is_last))
    if not parts:
        yield _event(_response(script, [], is_last=script.ending == "done"))
    if script.ending == "hang":
        yield 30.0
    if script.ending == "cut":
        yield b'data: {"candidates": [{"cont'
    if script.ending == "drop":
        yield "cut"
    if script.ending == "ping":
        yield b": ping\r\n\r\n"
    if script.ending == "error":
        yield _event(error(503, "UNAVAILABLE", "The model is overloaded.").body)


def _event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\r\n\r\n".encode()
