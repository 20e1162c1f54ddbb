"""Upload into a File Search store: sent, polled until it is active, cleaned up after a failure."""

from __future__ import annotations

import asyncio
import io
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.errors import (
    DocumentError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.file_search import RemoteDocument, Upload
from rag.providers.gemini.client import GeminiCaller
from rag.providers.gemini.deadline_runner import OnProgress
from rag.providers.gemini.resources import (
    MARK,
    MAX_METADATA,
    check_display_name,
    check_name,
    find_by_mark,
    read_document,
)
from rag.providers.remote.retry import Failure, await_with_retry
from rag.stages.detect.mime_type import mime_type_of

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import UploadToFileSearchStoreOperation


# What Gemini takes of one file by its documentation; no call of it tells.
MAX_FILE_MB = 100


class MeteredFile(io.BufferedReader):
    """A file that tells ``tell_sent``, before each piece is read, how many bytes went before.

    The SDK gets no path: it would put its name into a header, which breaks for all names that are
    not ASCII, and would guess types by a table that knows few.
    """

    def __init__(self, path: Path, tell_sent: Callable[[int], None]) -> None:
        # Closed together with the reader.
        super().__init__(io.FileIO(path))
        self._tell_sent = tell_sent

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next piece."""
        self._tell_sent(self.tell())
        return super().read(size)


def check_size(path: Path, name: str, max_mb: int = MAX_FILE_MB) -> int:
    """Return the bytes of a file; raise LimitError over ``max_mb``, DocumentError for none."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DocumentError(
            "“{name}” cannot be read: {reason}.",
            hint="Upload it again.",
            name=name,
            reason=error.strerror or type(error).__name__,
        ) from None
    if not size:
        raise DocumentError("“{name}” is empty.", hint="Upload a file with text.", name=name)
    if size > max_mb * 1024**2:
        raise LimitError(
            "“{name}” is larger than {most} MB.",
            hint="Split it into smaller files.",
            name=name,
            most=max_mb,
        )
    return size


# What is left of the progress is the indexing, which tells nothing of its own.
SENT_SHARE = 0.8


@dataclass(slots=True)
class UploadState:
    """An upload and how far it came: ``document`` and ``operation`` once Gemini named them."""

    store: str
    upload: Upload
    mime_type: str
    size: int
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_begun: bool = False
    operation: str = ""
    document: str = ""


def prepare_upload(store: str, upload: Upload, max_mb: int) -> UploadState:
    """Return what is to be sent, all of it checked; raises before anything is."""
    check_name(store)
    check_display_name(upload.display_name)
    _check_metadata(upload.metadata)
    size = check_size(upload.path, upload.display_name, max_mb)
    mime_type = upload.mime_type or mime_type_of(upload.path, upload.display_name)
    return UploadState(store, upload, mime_type, size)


async def send_upload(
    calls: GeminiCaller, trip: UploadState, deadline: Deadline, say: OnProgress
) -> None:
    """Send the bytes, again from the start if need be; after it the operation or document is known.

    An answer that was lost may hide a success: before each further try the document is looked for.
    """

    def tell_sent(n_bytes: int) -> None:
        trip.is_begun = True
        say(SENT_SHARE * min(1.0, n_bytes / trip.size))

    async def send(client: AsyncClient, config: Any) -> UploadToFileSearchStoreOperation:
        with MeteredFile(trip.upload.path, tell_sent) as file:
            return await client.file_search_stores.upload_to_file_search_store(
                file_search_store_name=trip.store, file=file, config=config | _config(trip)
            )

    async def attempt(left_s: float) -> bool | Failure:
        if trip.is_begun:
            found = await find_by_mark(calls, trip.store, trip.mark, deadline)
            if found is not None:
                trip.document = found.name or ""
                return True
        outcome = await calls.attempt(send, left_s, gone=trip.store)
        if isinstance(outcome, Failure):
            return outcome
        trip.operation = outcome.name or ""
        return True

    deadline.check()
    await await_with_retry(calls.retry.within(deadline.remaining_s), attempt)
    say(SENT_SHARE)


async def undo_upload(calls: GeminiCaller, trip: UploadState, deadline: Deadline) -> str:
    """Delete what a failed upload left at Gemini; return what could not be, empty for nothing."""
    try:
        if not trip.document:
            found = await find_by_mark(calls, trip.store, trip.mark, deadline)
            trip.document = (found.name or "") if found is not None else ""
        if trip.document:
            await delete_document(calls, trip.document, deadline)
            return ""
    except NotFoundError:
        return ""
    except RAGError:
        return trip.document or f"{trip.store}: {trip.upload.display_name}"
    # Accepted, and yet not to be seen: it will come.
    return trip.operation


async def delete_document(calls: GeminiCaller, name: str, deadline: Deadline) -> None:
    """Delete a document with its chunks; raise NotFoundError when it is gone."""
    await calls.ask(
        lambda client, config: client.file_search_stores.documents.delete(
            name=name, config=config | {"force": True}
        ),
        deadline,
        gone=name,
    )


def _config(trip: UploadState) -> dict[str, Any]:
    rule = trip.upload.rule
    return {
        "display_name": trip.upload.display_name,
        "mime_type": trip.mime_type,
        "custom_metadata": [
            *(_entry(key, value) for key, value in trip.upload.metadata.items()),
            {"key": MARK, "string_value": trip.mark},
        ],
        "chunking_config": {
            "white_space_config": {
                "max_tokens_per_chunk": rule.max_tokens,
                "max_overlap_tokens": rule.effective_overlap,
            }
        },
    }


def _entry(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"key": key, "string_value": value}
    if isinstance(value, (int, float)):
        return {"key": key, "numeric_value": value}
    return {"key": key, "string_list_value": {"values": list(value)}}


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidInputError(
            "{n_keys} metadata are too many for Gemini.",
            hint="Allowed: {most}.",
            n_keys=len(metadata),
            most=MAX_METADATA,
        )
    for key, value in metadata.items():
        is_list = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        is_scalar = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not key.strip() or key == MARK or not (is_list or is_scalar):
            raise InvalidInputError(
                "Gemini cannot keep the metadata “{key}”.",
                hint="Values are text, numbers or lists of text, keys not {mark}.",
                key=key,
                mark=MARK,
            )


LAST_LOOK_S = 2.0
# google.rpc.Code: the file is to blame, not the service.
_FILE_CODES = frozenset({3, 9, 11, 12})


@dataclass(frozen=True, slots=True)
class PollIntervals:
    """How often it is asked: pauses grow from ``first_s`` to ``most_s``. ``doubt_s`` is when the
    store's list, which takes many requests, is looked through for the first time."""

    first_s: float = 0.5
    most_s: float = 5.0
    doubt_s: float = 10.0


class IndexingPoller:
    """Waits for one upload; raises DocumentError when Gemini cannot read the file.

    An operation may never say that it is done although the document is active long since (seen by
    others on the live service), so the document's own state is looked at as well.
    """

    def __init__(
        self, calls: GeminiCaller, trip: UploadState, deadline: Deadline, polling: PollIntervals
    ) -> None:
        self._calls = calls
        self._trip = trip
        self._deadline = deadline
        self._polling = polling
        self._doubt_at = time.monotonic() + polling.doubt_s
        self._doubt_s = polling.doubt_s
        self._has_operation = bool(trip.operation)

    async def wait(self) -> RemoteDocument:
        """Return the document once it is active."""
        pause_s = self._polling.first_s
        while (left_s := self._deadline.remaining_s) > 0.0:
            try:
                document = await self._look()
            except ProviderTimeoutError:
                if left_s > LAST_LOOK_S:
                    raise
                # There was no time left to answer; what took so long is the indexing.
                document = None
            if document is not None and document.state == "active":
                return document
            if document is not None and document.state == "failed":
                raise self._unreadable()
            await asyncio.sleep(min(pause_s, self._deadline.remaining_s))
            pause_s = min(pause_s * 1.5, self._polling.most_s)
        raise ProviderTimeoutError(
            "{service} did not finish indexing “{name}” within {seconds} s.",
            hint="Upload it again, or allow more time.",
            service=self._calls.service.name,
            name=self._trip.upload.display_name,
            seconds=f"{self._deadline.timeout_s:.3g}",
        )

    async def _look(self) -> RemoteDocument | None:
        if not self._trip.document and self._has_operation:
            await self._ask_operation()
        if self._trip.document:
            return await self._get_document()
        is_doubtful = not self._has_operation or time.monotonic() >= self._doubt_at
        if not is_doubtful:
            return None
        self._doubt_s *= 2
        self._doubt_at = time.monotonic() + self._doubt_s
        trip = self._trip
        found = await find_by_mark(self._calls, trip.store, trip.mark, self._deadline)
        return read_document(found) if found is not None else None

    async def _ask_operation(self) -> None:
        # The SDK's classes are heavy; they are loaded here already.
        from google.genai.types import UploadToFileSearchStoreOperation

        asked = UploadToFileSearchStoreOperation.model_validate({"name": self._trip.operation})
        try:
            found = await self._calls.ask(
                lambda client, config: client.operations.get(asked, config=config),
                self._deadline,
                gone=self._trip.operation,
            )
        except NotFoundError:
            # It is forgotten, or its store is gone, which the list will say.
            self._has_operation = False
            return
        if found.error:
            raise self._refused(found.error)
        if found.response is not None and found.response.document_name:
            self._trip.document = found.response.document_name
        elif found.done:
            self._has_operation = False

    async def _get_document(self) -> RemoteDocument:
        name = self._trip.document

        async def act(client: AsyncClient, config: Any) -> RemoteDocument:
            documents = client.file_search_stores.documents
            return read_document(await documents.get(name=name, config=config))

        return await self._calls.ask(act, self._deadline, gone=name)

    def _refused(self, error: dict[str, Any]) -> ProviderError | DocumentError:
        said = self._calls.service.logged("indexing failed", error.get("message"))
        if error.get("code") in _FILE_CODES:
            return self._unreadable(said)
        return ProviderError(
            "{service} failed to index “{name}”.",
            hint="Upload it again later.",
            detail=said,
            service=self._calls.service.name,
            name=self._trip.upload.display_name,
        )

    def _unreadable(self, detail: str = "") -> DocumentError:
        return DocumentError(
            "{service} cannot index “{name}”.",
            hint="Check that it opens and holds text, or save it in another format.",
            detail=detail,
            service=self._calls.service.name,
            name=self._trip.upload.display_name,
        )
