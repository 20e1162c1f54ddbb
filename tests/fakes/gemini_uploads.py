"""Fake Gemini: the resumable upload protocol.

Every answer, errors too, has the header X-Goog-Upload-Status, unless a mode takes it away.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from tests.fakes.gemini_state import new_id
from tests.fakes.gemini_wire import error
from tests.fakes.loopback import Call, Reply

if TYPE_CHECKING:
    from tests.fakes.gemini_state import Modes

MAX_BYTES = 100 * 1024 * 1024
# The SDK sends pieces of this size; the protocol asks for multiples of a part of it.
GRANULE = 256 * 1024
Finish = Callable[[bytes], Reply]


@dataclass
class Session:
    """One upload that was begun; ``finish`` makes of its bytes what they are for."""

    size: int
    mime_type: str
    finish: Finish
    spool: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    received: int = 0
    is_over: bool = False


class Uploads:
    """All sessions; ``origin`` is where start requests send the bytes."""

    def __init__(self, modes: Callable[[], Modes], origin: str) -> None:
        self._origin = origin
        self.sessions: dict[str, Session] = {}
        self._modes = modes
        self._lock = threading.RLock()

    def start(self, call: Call, finish: Finish, *, check: Callable[[int], Reply | None]) -> Reply:
        """Begin a session, unless the headers or ``check``, given the size, refuse it."""
        headers = call.headers
        if headers.get("x-goog-upload-protocol") != "resumable":
            return error(400, "INVALID_ARGUMENT", "Only resumable uploads are served here.")
        if headers.get("x-goog-upload-command") != "start":
            return error(400, "INVALID_ARGUMENT", "An upload begins with the command start.")
        size = int(headers["x-goog-upload-header-content-length"])
        mime_type = headers["x-goog-upload-header-content-type"]
        if size > MAX_BYTES:
            return self._told(error(400, "INVALID_ARGUMENT", "File size exceeds 100 MB."), "final")
        if refused := check(size):
            return self._told(refused, "final")
        upload_id = new_id()
        self.sessions[upload_id] = Session(size, mime_type, finish)
        host = self._modes().upload_host or self._origin
        url = f"{host}{call.path}?upload_id={upload_id}&upload_protocol=resumable"
        reply = self._told(Reply({}), "active")
        if self._modes().has_url:
            reply.headers["X-Goog-Upload-URL"] = url
        return reply

    def take(self, call: Call) -> Reply:
        """Take a piece, or the last one, which ends the session."""
        session = self.sessions.get(call.query["upload_id"])
        if session is None or session.is_over:
            gone = error(404, "NOT_FOUND", "The upload does not exist or is over.")
            return self._told(gone, "final")
        commands = [word.strip() for word in call.headers["x-goog-upload-command"].split(",")]
        with self._lock:
            if commands == ["query"]:
                reply = self._told(Reply(b""), "active")
                reply.headers["X-Goog-Upload-Size-Received"] = str(session.received)
                return reply
            if commands == ["cancel"]:
                session.is_over = True
                return self._told(Reply(b""), "cancelled")
            return self._take(session, call, is_last="finalize" in commands)

    def _take(self, session: Session, call: Call, *, is_last: bool) -> Reply:
        offset = int(call.headers["x-goog-upload-offset"])
        wrong = ""
        if offset != session.received:
            wrong = f"The offset is {offset}, but {session.received} bytes are here."
        elif not is_last and (not call.body or len(call.body) % GRANULE):
            wrong = f"A piece must be a multiple of {GRANULE} bytes."
        elif session.received + len(call.body) > session.size:
            wrong = "More bytes than were announced."
        elif is_last and session.received + len(call.body) != session.size:
            wrong = "Fewer bytes than were announced."
        if wrong:
            return self._told(error(400, "INVALID_ARGUMENT", wrong), "active")
        is_cut = self._is_cut(session, session.received + len(call.body))
        if is_cut and not self._modes().is_kept:
            raise ConnectionResetError
        session.spool.write(call.body)
        session.received += len(call.body)
        if not is_last:
            reply = self._told(Reply(b""), "active")
        else:
            session.is_over = True
            session.spool.seek(0)
            reply = self._told(session.finish(session.spool.read()), "final")
            session.spool.close()
        if is_cut:
            raise ConnectionResetError
        return reply

    def _is_cut(self, session: Session, received: int) -> bool:
        modes = self._modes()
        is_cut = modes.cut_at is not None and received >= modes.cut_at * session.size
        if is_cut and modes.n_cuts > 0:
            modes.n_cuts -= 1
            return True
        return False

    def _told(self, reply: Reply, status: str) -> Reply:
        if self._modes().has_status:
            reply.headers["X-Goog-Upload-Status"] = status
        return reply


def check_upload(body: dict[str, Any]) -> Reply | None:
    """Return the error for names, metadata or chunks beyond the limits."""
    metadata = body.get("customMetadata", [])
    rule = body.get("chunkingConfig", {}).get("whiteSpaceConfig", {})
    most = rule.get("maxTokensPerChunk", 200)
    overlap = rule.get("maxOverlapTokens", 0)
    wrong = ""
    if len(body.get("displayName", "")) > 512:
        wrong = "display_name must be at most 512 characters."
    elif len(metadata) > 20 or len({entry.get("key") for entry in metadata}) != len(metadata):
        wrong = "custom_metadata must hold at most 20 entries with different keys."
    elif any(len(entry.keys() - {"key"}) != 1 for entry in metadata):
        wrong = "custom_metadata must have one value an entry."
    elif not 21 <= most <= 512:
        wrong = "max_tokens_per_chunk must be 21 to 512."
    elif not 0 <= overlap < most:
        wrong = "max_overlap_tokens must be below max_tokens_per_chunk."
    return error(400, "INVALID_ARGUMENT", wrong) if wrong else None
