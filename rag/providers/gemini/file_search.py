"""Gemini File Search: the FileSearch port on Gemini."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.errors import NotFoundError, ProviderError, RAGError
from rag.core.file_search import (
    GroundedAnswer,
    GroundedQuestion,
    RemoteDocument,
    RemoteStore,
    Upload,
)
from rag.providers.gemini.answers import Answers
from rag.providers.gemini.attach import CLEAN_UP_S, Sending
from rag.providers.gemini.calls import Calls
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.gemini.listing import documents_of, stores_of
from rag.providers.gemini.operations import Indexing
from rag.providers.gemini.resources import (
    check_display_name,
    check_name,
    read_document,
    read_store,
)
from rag.providers.gemini.upload import (
    Trip,
    delete_document,
    prepare_trip,
    send_trip,
    take_back,
)
from rag.providers.gemini.within import GRACE_S, Tell, reserving, run_within
from rag.providers.remote.retry import RetryPolicy

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import HttpOptions

UNSURE_HINT = "Gemini may have made “{name}” all the same: look at its stores before trying again."
LEFT_HINT = "Gemini may still hold {left}, which could not be deleted: delete it there."


@dataclass(frozen=True, slots=True)
class GeminiFileSearchOptions:
    """How Gemini is called: ``timeout_s`` bounds a request, and all tries of a call without a
    deadline of its own."""

    timeout_s: float = 60.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    sending: Sending = field(default_factory=Sending)


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

        async def act(client: AsyncClient, options: HttpOptions) -> RemoteStore:
            config: Any = {"display_name": display_name, "http_options": options}
            return read_store(await client.file_search_stores.create(config=config))

        deadline = self._deadline()
        try:
            # Made twice, one of the two would stay behind unknown to everybody.
            made = self._calls.ask(act, deadline, is_repeatable=False)
            return run_within(deadline, lambda _: made)
        except ProviderError as error:
            if "status" not in error.params:
                error.hint, error.params = UNSURE_HINT, {**error.params, "name": display_name}
            raise

    def get_store(self, name: str) -> RemoteStore:
        """Return a store with its counts; raise NotFoundError when it is gone."""
        check_name(name)

        async def act(client: AsyncClient, options: HttpOptions) -> RemoteStore:
            config: Any = {"http_options": options}
            found = await client.file_search_stores.get(name=name, config=config)
            return read_store(found, is_counted=True)

        deadline = self._deadline()
        return run_within(deadline, lambda _: self._calls.ask(act, deadline, gone=name))

    def list_stores(self) -> list[RemoteStore]:
        """Return all stores of the account, oldest first."""
        deadline = self._deadline()
        found = run_within(deadline, lambda _: stores_of(self._calls, deadline))
        return [read_store(store) for store in found if store.name]

    def delete_store(self, name: str) -> None:
        """Delete a store with all its documents; one that is gone is no error."""
        check_name(name)

        async def act(client: AsyncClient, options: HttpOptions) -> None:
            config: Any = {"force": True, "http_options": options}
            await client.file_search_stores.delete(name=name, config=config)

        deadline = self._deadline()
        try:
            run_within(deadline, lambda _: self._calls.ask(act, deadline, gone=name))
        except NotFoundError:
            return

    def upload(self, store: str, upload: Upload, *, deadline: Deadline) -> RemoteDocument:
        """Return the document once it can be found.

        What fails or is cancelled half-way leaves none behind, or the error's hint names it.
        """
        return self._take(store, upload, deadline)

    def list_documents(self, store: str) -> list[RemoteDocument]:
        """Return a store's documents; raise NotFoundError when the store is gone."""
        check_name(store)
        deadline = self._deadline()
        found = run_within(deadline, lambda _: documents_of(self._calls, store, deadline))
        return [read_document(document) for document in found]

    def delete_document(self, name: str) -> None:
        """Delete a document; one that is gone is no error."""
        check_name(name, is_document=True)
        deadline = self._deadline()
        try:
            run_within(deadline, lambda _: delete_document(self._calls, name, deadline))
        except NotFoundError:
            return

    def answer(self, question: GroundedQuestion, *, deadline: Deadline) -> GroundedAnswer:
        """Return the whole answer."""
        answers = self._answers(question)
        with reserving(deadline, CLEAN_UP_S if question.files else GRACE_S) as earlier:
            return run_within(earlier, lambda _: answers.whole(question, earlier))

    async def stream(
        self, question: GroundedQuestion, *, deadline: Deadline
    ) -> AsyncIterator[GroundedAnswer]:
        """Yield pieces as they come; leaving the iteration stops the model."""
        answers = self._answers(question)
        with reserving(deadline, CLEAN_UP_S if question.files else GRACE_S) as earlier:
            pieces = answers.pieces(question, earlier)
            try:
                async for piece in pieces:
                    yield piece
            finally:
                # Left early, an inner generator would be closed only when it is collected.
                await pieces.aclose()  # type: ignore[attr-defined]

    def _take(self, store: str, given: Upload, deadline: Deadline) -> RemoteDocument:
        trip = prepare_trip(store, given, self._options.sending.max_file_mb)
        told = given.on_progress or (lambda _: None)
        try:
            with reserving(deadline, CLEAN_UP_S) as earlier:
                document = run_within(earlier, self._work(trip, earlier), tell=_rising(told))
            told(1.0)
        except BaseException as error:
            # Whatever ends it, Ctrl+C and what is told of the progress too, leaves nothing there.
            left = self._take_back(trip)
            if left and isinstance(error, RAGError):
                error.hint, error.params = LEFT_HINT, {**error.params, "left": left}
            raise
        return document

    def _work(
        self, trip: Trip, deadline: Deadline
    ) -> Callable[[Tell], Coroutine[Any, Any, RemoteDocument]]:
        async def work(say: Tell) -> RemoteDocument:
            await send_trip(self._calls, trip, deadline, say)
            polling = self._options.sending.polling
            return await Indexing(self._calls, trip, deadline, polling).wait()

        return work

    def _take_back(self, trip: Trip) -> str:
        if not trip.is_begun:
            return ""
        deadline = Deadline(CLEAN_UP_S)
        try:
            return run_within(deadline, lambda _: take_back(self._calls, trip, deadline))
        except RAGError:
            return trip.document or trip.operation or f"{trip.store}: {trip.upload.display_name}"

    def _answers(self, question: GroundedQuestion) -> Answers:
        for name in question.stores:
            check_name(name)
        chosen = self._calls_of(question.model) if question.model else self._calls
        return Answers(chosen, self._options.sending)

    def _calls_of(self, model: str) -> Calls:
        service = self._endpoint.service(model)
        return Calls(self._endpoint, service, self._options.retry, self._options.timeout_s)

    def _deadline(self) -> Deadline:
        return Deadline(self._options.timeout_s)


def _rising(tell: Tell) -> Tell:
    """Return ``tell`` without the steps back that further tries make."""
    most = -1.0

    def tell_more(share: float) -> None:
        nonlocal most
        if share > most:
            most = share
            tell(share)

    return tell_more
