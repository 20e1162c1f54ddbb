"""A Gemini of our own and the real SDK before it, for tests of everything that goes through both."""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.file_search import GroundedQuestion, InlineFile, Upload
from rag.core.ports import Parser
from rag.providers.gemini.attachments import INLINE_BYTES, AttachmentOptions
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.gemini.file_search import GeminiFileSearch, GeminiFileSearchOptions
from rag.providers.gemini.upload import PollIntervals
from rag.providers.remote.retry import RetryPolicy
from tests.fakes.gemini_server import GeminiServer

KEY = "AIza-secret-0123456789"
FAST = RetryPolicy(max_attempts=4, first_wait_s=0.005, max_wait_s=0.01, deadline_s=30.0)
WARRANTY = "The warranty lasts two years. It covers parts and labour."
LEAVE = "員工每年可以把五天年假結轉到下一年。特別休假須於三月底前使用。"


def backend(
    server: GeminiServer,
    *,
    key: str = KEY,
    timeout_s: float = 5.0,
    inline_bytes: int = INLINE_BYTES,
    version: str = "v1beta",
    doubt_s: float = 0.1,
    parser: Parser | None = None,
) -> GeminiFileSearch:
    """Return the port on the faked service."""
    options = GeminiFileSearchOptions(
        timeout_s, FAST, AttachmentOptions(inline_bytes, PollIntervals(0.01, 0.05, doubt_s), parser)
    )
    endpoint = GeminiEndpoint(key, server.url, version)
    return GeminiFileSearch("gemini-2.5-flash", endpoint, options=options)


def upload_of(path: Path, text: str | bytes = WARRANTY, **given: Any) -> Upload:
    """Return an upload of a new file."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Upload(
        **{
            "path": path,
            "display_name": path.name,
            "mime_type": "",
            "rule": ChunkRule(),
            **given,
        }
    )


def sent_file(path: Path, data: str | bytes = WARRANTY, mime_type: str = "") -> InlineFile:
    """Return a new file to be sent along with a question."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return InlineFile(path.name, path, mime_type)


def filled_store(search: GeminiFileSearch, folder: Path, **texts: str) -> str:
    """Return a new store with a text file of each name."""
    store = search.create_store("Filled").name
    for name, text in texts.items():
        search.upload(store, upload_of(folder / f"{name}.txt", text), deadline=Deadline(5.0))
    return store


def ask(
    store: str, text: str = "How long does the warranty last?", **given: Any
) -> GroundedQuestion:
    """Return a question to a store."""
    return GroundedQuestion(text, stores=[store], **given)


def told(error: BaseException) -> str:
    """Return all that a log would show of an error."""
    return "".join([*traceback.format_exception(error), repr(error), repr(vars(error))])


def act_when(server: GeminiServer, pattern: str, act: Callable[[], object]) -> None:
    """Call ``act``, from another thread, a moment after a request that the pattern is found in."""

    def watch() -> None:
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            targets = [f"{call.method} {call.path}?{call.query}" for call in server.calls]
            if any(re.search(pattern, target) for target in targets):
                time.sleep(0.1)
                act()
                return
            time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()
