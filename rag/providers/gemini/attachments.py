"""Attachments of a Gemini request: files as the SDK's parts; none stays at Gemini.

Small files go inside the request, larger ones through the Files API, which keeps them for 48 hours
unless they are deleted. Office files, which Gemini's models refuse, are converted to text.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import uuid
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.errors import DocumentError, NotFoundError, RAGError
from rag.core.file_search import InlineFile
from rag.core.ports import Parser
from rag.providers.gemini.client import GeminiCaller
from rag.providers.gemini.deadline_runner import await_within
from rag.providers.gemini.resources import check_display_name
from rag.providers.gemini.upload import MAX_FILE_MB, MeteredFile, PollIntervals, check_size
from rag.providers.remote.retry import Failure, await_with_retry
from rag.stages.detect.mime_type import mime_type_of

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import File, Part


PIECE = 1 << 20
# Each is a process that reads a file.
N_CONVERSIONS = 2
_FOREIGN = ("application/vnd.openxmlformats-", "application/msword", "application/epub", "message/")
_TEXTS = ("text/", "application/json")
# A request holds 20 MB, in which base64 makes 4 bytes of 3; some are left for the question.
INLINE_BYTES = 14 * 1024 * 1024
CLEAN_UP_S = 5.0
N_UPLOADS = 4
_log = logging.getLogger(__name__)


async def convert_unreadable(
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
    pool = ThreadPoolExecutor(N_CONVERSIONS, thread_name_prefix="gemini-read")
    try:
        work = [loop.run_in_executor(pool, as_readable, *one) for one in enumerate(files)]
        return list(await asyncio.gather(*work))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _is_foreign(path: Path, mime_type: str) -> bool:
    is_text = mime_type.startswith(_TEXTS)
    return mime_type.startswith(_FOREIGN) or (is_text and not _is_utf8(path))


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


@dataclass(slots=True)
class Attachments:
    """The parts of a request, and which names at Gemini could not be deleted afterwards."""

    parts: list[Part] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AttachmentOptions:
    """How files are sent: which total goes inline, how Gemini is asked whether it is ready, what
    reads those that its models do not, and how large one may be."""

    inline_bytes: int = INLINE_BYTES
    polling: PollIntervals = field(default_factory=PollIntervals)
    parser: Parser | None = None
    max_file_mb: int = MAX_FILE_MB


@asynccontextmanager
async def attach_files(
    calls: GeminiCaller, files: Sequence[InlineFile], deadline: Deadline, sending: AttachmentOptions
) -> AsyncIterator[Attachments]:
    """Give the parts of all files, in order; whatever happens, delete what was sent for them."""
    attachments, names = Attachments(), list[str]()
    try:
        with TemporaryDirectory(prefix="citable-attach-", ignore_cleanup_errors=True) as folder:
            work = _all_parts(calls, files, deadline, sending, Path(folder), names)
            attachments.parts = await await_within(deadline, work)
        yield attachments
    finally:
        if names:
            attachments.left = await _delete_all(calls, names)


async def _all_parts(
    calls: GeminiCaller,
    given: Sequence[InlineFile],
    deadline: Deadline,
    sending: AttachmentOptions,
    folder: Path,
    names: list[str],
) -> list[Part]:
    for file in given:
        check_size(file.path, check_display_name(file.name), sending.max_file_mb)
    files = await convert_unreadable(given, sending.parser, folder)
    sizes = [check_size(file.path, file.name, sending.max_file_mb) for file in files]
    inline = _inline(sizes, sending.inline_bytes)
    room = asyncio.Semaphore(N_UPLOADS)

    # Heavy SDK, only where a model is called.
    from google.genai.types import Part

    async def part_of(at: int) -> Part:
        if at in inline:
            data = await asyncio.to_thread(files[at].path.read_bytes)
            return Part.from_bytes(data=data, mime_type=files[at].mime_type)
        async with room:
            upload = _Upload(calls, files[at], deadline, names)
            uri = await upload.uri(sending.polling)
            return Part.from_uri(file_uri=uri, mime_type=files[at].mime_type)

    tasks = [asyncio.create_task(part_of(at)) for at in range(len(files))]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _inline(sizes: Sequence[int], most: int) -> set[int]:
    """Return the files that go inside the request: the smallest, while there is room."""
    chosen, total = set(), 0
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at]):
        total += sizes[at]
        if total > most:
            break
        chosen.add(at)
    return chosen


@dataclass(frozen=True, slots=True)
class _Upload:
    """One file through the Files API. Each try has a name of its own, chosen here, so that what an
    answer that was lost has left can be deleted too."""

    _calls: GeminiCaller
    _file: InlineFile
    _deadline: Deadline
    _names: list[str]

    async def uri(self, polling: PollIntervals) -> str:
        """Return where the file is, once it can be used."""
        found = await await_with_retry(
            self._calls.retry.within(self._deadline.remaining_s), self._send
        )
        return (await self._wait(found, polling)).uri or ""

    async def _send(self, left_s: float) -> File | Failure:
        name = f"files/citable-{uuid.uuid4().hex[:24]}"
        self._names.append(name)

        async def act(client: AsyncClient, config: Any) -> File:
            told = {"display_name": self._file.name, "mime_type": self._file.mime_type}
            with MeteredFile(self._file.path, lambda _: None) as opened:
                return await client.files.upload(file=opened, config=config | told | {"name": name})

        return await self._calls.attempt(act, left_s)

    async def _wait(self, found: File, polling: PollIntervals) -> File:
        pause_s, name = polling.first_s, found.name or ""
        while (state := found.state.value if found.state else "") != "ACTIVE":
            if state == "FAILED":
                raise DocumentError(
                    "{service} cannot read “{name}”.",
                    hint="Check that it opens, or save it in another format.",
                    service=self._calls.service.name,
                    name=self._file.name,
                )
            await asyncio.sleep(min(pause_s, self._deadline.remaining_s))
            pause_s = min(pause_s * 1.5, polling.most_s)
            found = await self._calls.ask(
                lambda client, config: client.files.get(name=name, config=config),
                self._deadline,
                gone=name,
            )
        return found


async def _delete_all(calls: GeminiCaller, names: Sequence[str]) -> list[str]:
    """Delete files; return the names of those that are still there, as far as one can tell."""
    deadline = Deadline(CLEAN_UP_S)

    async def delete(name: str) -> str:
        deleting: Coroutine[Any, Any, Any] = calls.ask(
            lambda client, config: client.files.delete(name=name, config=config),
            deadline,
            gone=name,
        )
        try:
            await await_within(deadline, deleting)
        except NotFoundError:
            return ""
        except RAGError as error:
            _log.warning("%s stays at Gemini for up to 48 hours: %s", name, error)
            return name
        return ""

    return [name for name in await asyncio.gather(*map(delete, names)) if name]
