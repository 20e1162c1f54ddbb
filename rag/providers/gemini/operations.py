"""Long-running upload operations: polled until the document is active.

An operation may never say that it is done although the document is active long since (seen by
others on the live service), so the document's own state is looked at as well.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.errors import DocumentError, NotFoundError, ProviderError, ProviderTimeoutError
from rag.core.file_search import RemoteDocument
from rag.providers.gemini.calls import Calls
from rag.providers.gemini.listing import marked_document
from rag.providers.gemini.resources import read_document
from rag.providers.gemini.upload import Trip

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import HttpOptions

LAST_LOOK_S = 2.0
# google.rpc.Code: the file is to blame, not the service.
_FILE_CODES = frozenset({3, 9, 11, 12})


@dataclass(frozen=True, slots=True)
class Polling:
    """How often it is asked: pauses grow from ``first_s`` to ``most_s``. ``doubt_s`` is when the
    store's list, which takes many requests, is looked through for the first time."""

    first_s: float = 0.5
    most_s: float = 5.0
    doubt_s: float = 10.0


class Indexing:
    """Waits for one upload; raises DocumentError when Gemini cannot read the file."""

    def __init__(self, calls: Calls, trip: Trip, deadline: Deadline, polling: Polling) -> None:
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
            document = await (self._look() if left_s > LAST_LOOK_S else self._last_look())
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

    async def _last_look(self) -> RemoteDocument | None:
        try:
            return await self._look()
        except ProviderTimeoutError:
            # There was no time left to answer; what took so long is the indexing.
            return None

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
        found = await marked_document(self._calls, trip.store, trip.mark, self._deadline)
        return read_document(found) if found is not None else None

    async def _ask_operation(self) -> None:
        # The SDK's classes are heavy; they are loaded here already.
        from google.genai.types import UploadToFileSearchStoreOperation

        asked = UploadToFileSearchStoreOperation.model_validate({"name": self._trip.operation})

        async def act(client: AsyncClient, options: HttpOptions) -> Any:
            config: Any = {"http_options": options}
            return await client.operations.get(asked, config=config)

        try:
            found = await self._calls.ask(act, self._deadline, gone=self._trip.operation)
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

        async def act(client: AsyncClient, options: HttpOptions) -> RemoteDocument:
            documents = client.file_search_stores.documents
            config: Any = {"http_options": options}
            return read_document(await documents.get(name=name, config=config))

        return await self._calls.ask(act, self._deadline, gone=name)

    def _refused(self, error: dict[str, Any]) -> ProviderError | DocumentError:
        reason = self._calls.service.clean(error.get("message"))
        if error.get("code") in _FILE_CODES:
            return self._unreadable(reason)
        return ProviderError(
            "{service} failed to index “{name}”: {reason}",
            hint="Upload it again later.",
            service=self._calls.service.name,
            name=self._trip.upload.display_name,
            reason=reason,
        )

    def _unreadable(self, reason: str = "") -> DocumentError:
        message = "{service} cannot index “{name}”."
        if reason:
            message = "{service} cannot index “{name}”: {reason}"
        return DocumentError(
            message,
            hint="Check that it opens and holds text, or save it in another format.",
            service=self._calls.service.name,
            name=self._trip.upload.display_name,
            reason=reason,
        )
