"""One walk through the real Gemini, for people with a key: ``make smoke-gemini``.

In: GEMINI_API_KEY and the other settings of Gemini. Out: a line a step; 1 when one went wrong.
What it makes there it deletes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import RAGError
from rag.core.file_search import GroundedAnswer, GroundedQuestion, InlineFile, Upload
from rag.providers.gemini.attachments import AttachmentOptions
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.gemini.file_search import GeminiFileSearch, GeminiFileSearchOptions

WAIT_S = 180.0
TEXT = (
    "The blue kettle of the Citable works has a warranty of 27 months.\n"
    "藍色水壺的保固期為二十七個月，人為損壞不在保固範圍內。\n"
)
QUESTION = "How many months of warranty does the blue kettle have? Answer with the number."
T = TypeVar("T")


def main() -> int:
    """Return the exit code."""
    key = os.environ.get("GEMINI_API_KEY", "")
    if not key:
        print("skipped: GEMINI_API_KEY is not set")
        return 0
    version = _version(key)
    if not version:
        print("failed: no API version serves File Search for this key")
        return 1
    search = _search(key, version)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kettle.txt"
        path.write_text(TEXT, encoding="utf-8")
        try:
            _walk(search, path)
            _ask_about(search, path, "a file inside the request")
            _ask_about(_search(key, version, inline_bytes=0), path, "a file by the Files API")
        except (RAGError, AssertionError) as error:
            print(f"failed: {error}")
            return 1
    print("passed")
    return 0


def _version(key: str) -> str:
    """Return the first API version that lists stores, the configured one first."""
    wanted = os.environ.get("GEMINI_API_VERSION", "v1beta")
    served = []
    for version in dict.fromkeys([wanted, "v1beta", "v1"]):
        try:
            n_stores = len(_search(key, version).list_stores())
        except RAGError as error:
            print(f"File Search is not served by {version}: {error}")
        else:
            print(f"File Search is served by {version} ({n_stores} stores)")
            served.append(version)
    return served[0] if served else ""


def _search(key: str, version: str, inline_bytes: int = 1_000_000) -> GeminiFileSearch:
    endpoint = GeminiEndpoint(key, os.environ.get("GEMINI_BASE_URL", ""), version)
    options = GeminiFileSearchOptions(sending=AttachmentOptions(inline_bytes))
    return GeminiFileSearch(
        os.environ.get("GEMINI_MODEL", "gemini-2.5-flash"), endpoint, options=options
    )


def _walk(search: GeminiFileSearch, path: Path) -> None:
    with _store(search) as store:
        upload = Upload(
            path,
            "藍色水壺 kettle.txt",
            "",
            ChunkRule(),
            {"lang": "zh", "year": 2025},
        )
        document = _timed("upload", lambda: search.upload(store, upload, deadline=_deadline()))
        assert document.state == "active", document
        assert [one.name for one in search.list_documents(store)] == [document.name]
        question = GroundedQuestion(QUESTION, stores=[store])
        whole = _timed("answer", lambda: search.answer(question, deadline=_deadline()))
        _check(whole, "藍色水壺 kettle.txt")
        assert any(found.chunk in TEXT for found in whole.groundings), whole.groundings
        pieces = _timed("stream", lambda: asyncio.run(_pieces(search, question)))
        assert "27" in "".join(piece.text for piece in pieces), pieces
        print(f"  {len(pieces)} pieces, {len(pieces[-1].groundings)} groundings in the last")
        for wanted, is_found in (('lang = "zh"', True), ('lang = "fr"', False)):
            filtered = GroundedQuestion(QUESTION, stores=[store], metadata_filter=wanted)
            answer = search.answer(filtered, deadline=_deadline())
            assert bool(answer.groundings) == is_found, (wanted, answer)
        _timed("delete the document", lambda: search.delete_document(document.name))
        print(f"  store afterwards: {search.get_store(store)}")


def _ask_about(search: GeminiFileSearch, path: Path, what: str) -> None:
    question = GroundedQuestion(QUESTION, files=[InlineFile(path.name, path, "")])
    answer = _timed(what, lambda: search.answer(question, deadline=_deadline()))
    _check(answer, path.name)
    assert not answer.notice, answer.notice


@contextmanager
def _store(search: GeminiFileSearch) -> Iterator[str]:
    name = f"citable-smoke-{int(time.time())}"
    store = _timed("create a store", lambda: search.create_store(name)).name
    print(f"  {store}")
    try:
        yield store
    finally:
        _timed("delete the store", lambda: search.delete_store(store))


def _check(answer: GroundedAnswer, source: str) -> None:
    print(f"  {answer.text.strip()!r}, {answer.input_tokens} + {answer.output_tokens} tokens")
    assert "27" in answer.text, answer
    assert source in {found.source for found in answer.groundings}, answer.groundings


async def _pieces(search: GeminiFileSearch, question: GroundedQuestion) -> list[GroundedAnswer]:
    return [piece async for piece in search.stream(question, deadline=_deadline())]


def _timed(what: str, act: Callable[[], T]) -> T:
    started = time.perf_counter()
    done = act()
    print(f"{what}: {time.perf_counter() - started:.1f} s")
    return done


def _deadline() -> Deadline:
    return Deadline(WAIT_S)


if __name__ == "__main__":
    sys.exit(main())
