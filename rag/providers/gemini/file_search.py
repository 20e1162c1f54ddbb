"""Gemini File Search: the FileSearch port on Gemini."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rag.core.deadline import Deadline
from rag.core.errors import NotFoundError, ProviderError, RAGError
from rag.core.file_search import (
    GroundedAnswer,
    GroundedQuestion,
    RemoteDocument,
    RemoteStore,
    Upload,
)
from rag.providers.gemini.attachments import CLEAN_UP_S, AttachmentOptions
from rag.providers.gemini.client import GeminiCaller, GeminiEndpoint, SdkCall
from rag.providers.gemini.deadline_runner import GRACE_S, OnProgress, reserve_time, run_within
from rag.providers.gemini.grounded_answers import GroundedGenerator
from rag.providers.gemini.resources import (
    all_documents,
    all_stores,
    check_display_name,
    check_name,
    read_document,
    read_store,
)
from rag.providers.gemini.upload import (
    IndexingPoller,
    UploadState,
    delete_document,
    prepare_upload,
    send_upload,
    undo_upload,
)
from rag.providers.remote.retry import RetryPolicy

if TYPE_CHECKING:
    from google.genai.client import AsyncClient

T = TypeVar("T")
UNSURE_HINT = "Gemini may have made “{name}” all the same: look at its stores before trying again."
LEFT_HINT = "Gemini may still hold {left}, which could not be deleted: delete it there."


@dataclass(frozen=True, slots=True)
class GeminiFileSearchOptions:
    """How Gemini is called: ``timeout_s`` bounds a request, and all tries of a call without a
    deadline of its own."""

    timeout_s: float = 60.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    sending: AttachmentOptions = field(default_factory=AttachmentOptions)


class GeminiFileSearch:
    """The FileSearch port on Gemini. Blocking calls may be made from any thread; a cancelled
    deadline ends them at once but for deleting what they left, which takes 5 s at most."""

    def __init__(
        self,
        model: str,
        endpoint: GeminiEndpoint,
        *,
        options: GeminiFileSearchOptions | None = None,
    ) -> None:
        self.id = f"gemini:{model}"
        self._model = model
        self._endpoint = endpoint
        self._options = options or GeminiFileSearchOptions()
        self._calls = self._calls_of(model)

    def create_store(self, display_name: str) -> RemoteStore:
        """Return a new, empty store."""
        check_display_name(display_name)

        async def act(client: AsyncClient, config: Any) -> RemoteStore:
            config |= {"display_name": display_name}
            return read_store(await client.file_search_stores.create(config=config))

        try:
            # Made twice, one of the two would stay behind unknown to everybody.
            return self._run(act, is_repeatable=False)
        except ProviderError as error:
            if "status" not in error.params:
                error.hint, error.params = UNSURE_HINT, {**error.params, "name": display_name}
            raise

    def get_store(self, name: str) -> RemoteStore:
        """Return a store with its counts; raise NotFoundError when it is gone."""
        check_name(name)

        async def act(client: AsyncClient, config: Any) -> RemoteStore:
            found = await client.file_search_stores.get(name=name, config=config)
            return read_store(found, is_counted=True)

        return self._run(act, gone=name)

    def list_stores(self) -> list[RemoteStore]:
        """Return all stores of the account, oldest first."""
        deadline = self._deadline()
        found = run_within(deadline, lambda _: all_stores(self._calls, deadline))
        return [read_store(store) for store in found if store.name]

    def delete_store(self, name: str) -> None:
        """Delete a store with all its documents; one that is gone is no error."""
        check_name(name)
        with suppress(NotFoundError):
            self._run(
                lambda client, config: client.file_search_stores.delete(
                    name=name, config=config | {"force": True}
                ),
                gone=name,
            )

    def upload(self, store: str, upload: Upload, *, deadline: Deadline) -> RemoteDocument:
        """Return the document once it can be found.

        What fails or is cancelled half-way leaves none behind, or the error's hint names it.
        """
        trip = prepare_upload(store, upload, self._options.sending.max_file_mb)
        told = upload.on_progress or (lambda _: None)
        try:
            with reserve_time(deadline, CLEAN_UP_S) as earlier:

                async def work(say: OnProgress) -> RemoteDocument:
                    await send_upload(self._calls, trip, earlier, say)
                    polling = self._options.sending.polling
                    return await IndexingPoller(self._calls, trip, earlier, polling).wait()

                document = run_within(earlier, work, tell=_rising(told))
            told(1.0)
        except BaseException as error:
            # Whatever ends it, Ctrl+C and what is told of the progress too, leaves nothing there.
            left = self._take_back(trip)
            if left and isinstance(error, RAGError):
                error.hint, error.params = LEFT_HINT, {**error.params, "left": left}
            raise
        return document

    def list_documents(self, store: str) -> list[RemoteDocument]:
        """Return a store's documents; raise NotFoundError when the store is gone."""
        check_name(store)
        deadline = self._deadline()
        found = run_within(deadline, lambda _: all_documents(self._calls, store, deadline))
        return [read_document(document) for document in found]

    def delete_document(self, name: str) -> None:
        """Delete a document; one that is gone is no error."""
        check_name(name, is_document=True)
        deadline = self._deadline()
        with suppress(NotFoundError):
            run_within(deadline, lambda _: delete_document(self._calls, name, deadline))

    def answer(self, question: GroundedQuestion, *, deadline: Deadline) -> GroundedAnswer:
        """Return the whole answer."""
        answers = self._answers(question)
        with reserve_time(deadline, CLEAN_UP_S if question.files else GRACE_S) as earlier:
            return run_within(earlier, lambda _: answers.whole(question, earlier))

    async def stream(
        self, question: GroundedQuestion, *, deadline: Deadline
    ) -> AsyncIterator[GroundedAnswer]:
        """Yield pieces as they come; leaving the iteration stops the model."""
        answers = self._answers(question)
        with reserve_time(deadline, CLEAN_UP_S if question.files else GRACE_S) as earlier:
            pieces = answers.pieces(question, earlier)
            try:
                async for piece in pieces:
                    yield piece
            finally:
                # Left early, an inner generator would be closed only when it is collected.
                await pieces.aclose()  # type: ignore[attr-defined]

    def _run(self, act: SdkCall[T], *, gone: str = "", is_repeatable: bool = True) -> T:
        deadline = self._deadline()
        made = self._calls.ask(act, deadline, gone=gone, is_repeatable=is_repeatable)
        return run_within(deadline, lambda _: made)

    def _take_back(self, trip: UploadState) -> str:
        if not trip.is_begun:
            return ""
        deadline = Deadline(CLEAN_UP_S)
        try:
            return run_within(deadline, lambda _: undo_upload(self._calls, trip, deadline))
        except RAGError:
            return trip.document or trip.operation or f"{trip.store}: {trip.upload.display_name}"

    def _answers(self, question: GroundedQuestion) -> GroundedGenerator:
        for name in question.stores:
            check_name(name)
        chosen = self._calls_of(question.model) if question.model else self._calls
        return GroundedGenerator(chosen, self._options.sending)

    def _calls_of(self, model: str) -> GeminiCaller:
        service = self._endpoint.service(model)
        return GeminiCaller(self._endpoint, service, self._options.retry, self._options.timeout_s)

    def _deadline(self) -> Deadline:
        return Deadline(self._options.timeout_s)


def _rising(tell: OnProgress) -> OnProgress:
    """Return ``tell`` without the steps back that further tries make."""
    most = -1.0

    def tell_more(share: float) -> None:
        nonlocal most
        if share > most:
            most = share
            tell(share)

    return tell_more
