"""Attachments as text: Office files that Gemini's models refuse, converted before they are sent.

Gemini's stores read Office files; its models refuse them, and take text for UTF-8.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rag.core.file_search import InlineFile
from rag.core.ports import Parser
from rag.stages.detect.mime_type import mime_type_of

PIECE = 1 << 20
# Each is a process that reads a file.
N_PARALLEL = 2
_FOREIGN = ("application/vnd.openxmlformats-", "application/msword", "application/epub", "message/")
_TEXTS = ("text/", "application/json")


async def readable(
    files: Sequence[InlineFile], parser: Parser | None, folder: Path
) -> list[InlineFile]:
    """Return the files with their types told, those that no model reads as text in ``folder``.

    Raises DocumentError for one that cannot be read. Without a parser all go as they are.
    """

    def as_readable(at: int, file: InlineFile) -> InlineFile:
        mime_type = file.mime_type or mime_type_of(file.path, file.name)
        if parser is None or not _is_foreign(file.path, mime_type):
            return InlineFile(file.name, file.path, mime_type)
        path = folder / f"{at}.txt"
        path.write_text(parser.parse(file.path, file.name).text, encoding="utf-8")
        return InlineFile(file.name, path, "text/plain")

    loop = asyncio.get_running_loop()
    # A pool of its own: a loop that ends waits for all threads of its default one.
    pool = ThreadPoolExecutor(N_PARALLEL, thread_name_prefix="gemini-read")
    try:
        work = [loop.run_in_executor(pool, as_readable, *one) for one in enumerate(files)]
        return list(await asyncio.gather(*work))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _is_foreign(path: Path, mime_type: str) -> bool:
    if mime_type.startswith(_FOREIGN):
        return True
    return mime_type.startswith(_TEXTS) and not _is_utf8(path)


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                # Programs, and texts of another width, are valid UTF-8 too.
                if b"\0" in piece:
                    return False
                decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
