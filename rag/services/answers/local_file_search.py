"""FileSearch port on local stores: retrieval, context, chat model, groundings."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from asgiref.sync import sync_to_async
from django.db.models import Sum

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, NotFoundError
from rag.core.file_search import (
    GroundedAnswer,
    GroundedQuestion,
    Grounding,
    RemoteDocument,
    RemoteStore,
    Upload,
)
from rag.core.ports import ChatModel
from rag.core.types import SearchResult
from rag.providers.postgres.db.connections import release_db
from rag.services.answers.cited_answer import CitedAnswer, answer_passages, stream_passages
from rag.services.files import as_remote_document, delete_files, upload_document
from rag.services.search import cached_search, files_matching_metadata, log_query
from rag.services.stores import create_named_store, delete_store, find_stores
from rag.services.wiring import registry as wiring
from rag.services.wiring.accounts import chat_for
from rag.stages.prompting.context import Context, Passage, build_context


@dataclass(frozen=True, slots=True)
class _Found:
    stores: Sequence[models.Store]
    result: SearchResult
    context: Context
    chat: ChatModel


def answer_locally(
    *, question: GroundedQuestion, scope: Scope, deadline: Deadline
) -> GroundedAnswer:
    """Return the answer of ``question.model`` (empty: the configured one), with checked quotes.

    ``documents`` are the chunks that it cites, else the answer itself. Raises NotFoundError for a
    store that ``scope`` may not read. The query log keeps it.
    """
    deadline.check()
    found = _find(question, scope, deadline)
    release_db()
    cited = answer_passages(
        question=found.result.query, context=found.context, chat=found.chat, deadline=deadline
    )
    return _finished(found, scope, cited, cited.text)


async def stream_locally(
    *, question: GroundedQuestion, scope: Scope, deadline: Deadline
) -> AsyncIterator[GroundedAnswer]:
    """Yield the answer as it comes; leaving the iteration stops the model."""
    deadline.check()
    found = await sync_to_async(_find)(question, scope, deadline)
    await sync_to_async(release_db)()
    whole = ""
    pieces = stream_passages(
        question=found.result.query, context=found.context, chat=found.chat, deadline=deadline
    )
    try:
        async for piece in pieces:
            whole += piece.text
            if not piece.is_last:
                yield GroundedAnswer(piece.text)
                continue
            yield await sync_to_async(_finished)(found, scope, piece, whole)
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]


def _find(question: GroundedQuestion, scope: Scope, deadline: Deadline) -> _Found:
    stores = find_stores(names=question.stores, scope=scope)
    chat = chat_for(scope=scope, kind="fileSearch", model=question.model, stores=stores)
    settings = stores[0].retrieval_settings
    if question.top_k is not None:
        settings = settings.but(top_k=min(question.top_k, 200))
    result = cached_search(
        query=question.text,
        scope=scope,
        stores=stores,
        settings=settings,
        is_logged=False,
        files=files_matching_metadata(text=question.metadata_filter, stores=stores),
    )
    deadline.check()
    count = wiring.embedder_of(stores[0].live_space_id).tokenizer.count
    context = build_context(
        result.hits,
        settings.context_tokens,
        count,
        context_type=settings.context_type,
        language_of=result.query,
    )
    return _Found(stores, result, context, chat)


def _finished(found: _Found, scope: Scope, cited: CitedAnswer, whole: str) -> GroundedAnswer:
    passages = {passage.doc_id: passage for passage in found.context.passages}
    names = {store.pk: store.resource_name for store in found.stores}
    groundings = [
        _grounding(citation.verdict, passages[citation.doc_id], citation.page, names, span)
        for citation, span in zip(cited.citations, cited.spans, strict=True)
        if citation.doc_id in passages and citation.verdict != "unknown"
    ]
    log_query(
        result=found.result,
        scope=scope,
        answer=whole,
        citations=cited.citations,
    )
    texts = dict.fromkeys(one.chunk for one in groundings) or (whole,)
    return replace(cited.as_grounded(), groundings=tuple(groundings), documents=tuple(texts))


def _grounding(
    verdict: str, passage: Passage, page: int | None, names: dict[int, str], span: tuple[int, int]
) -> Grounding:
    hit = passage.hit
    store = names.get(hit.store_id or 0, "")
    return Grounding(
        source=hit.file_name,
        chunk=hit.text,
        document=f"{store}/documents/{hit.file_id}",
        page=page,
        start=span[0],
        end=span[1],
        verdict=verdict,
        store=store,
    )


STATES = models.File.Status


@dataclass(frozen=True, slots=True)
class LocalFileSearch:
    """Stores in Postgres, for one caller: what ``scope`` may not read does not exist.

    Uploads wait for the queue, so a worker must run.
    """

    scope: Scope

    def create_store(self, display_name: str) -> RemoteStore:
        """Return a new, empty store of the caller's."""
        store = create_named_store(scope=self.scope, display_name=display_name, backend="local")
        return RemoteStore(store.resource_name, store.display_name, store.created_at)

    def get_store(self, name: str) -> RemoteStore:
        """Return a store with its counts; raise NotFoundError when it is gone."""
        store = self._store(name)
        files = models.File.objects.filter(store=store)
        ended = (STATES.COMPLETED, STATES.ERROR)
        n_active, n_failed = (files.filter(status=status).count() for status in ended)
        return RemoteStore(
            store.resource_name,
            store.display_name,
            store.created_at,
            n_active=n_active,
            n_pending=files.count() - n_active - n_failed,
            n_failed=n_failed,
            size_bytes=files.aggregate(n=Sum("size"))["n"] or 0,
        )

    def list_stores(self) -> list[RemoteStore]:
        """Return the local stores that the caller may read, oldest first."""
        stores = models.Store.objects.readable(self.scope).filter(backend="local")
        values = stores.values_list("resource_name", "display_name", "created_at")
        return [RemoteStore(*row) for row in values.order_by("created_at", "pk")]

    def delete_store(self, name: str) -> None:
        """Delete a store with all its documents; one that is gone is no error."""
        store = models.Store.objects.readable(self.scope).filter(resource_name=name).first()
        if store is None:
            return
        if not models.Store.objects.editable(self.scope).filter(pk=store.pk).exists():
            raise ForbiddenError("You may read “{name}”, not change it.", name=store.name)
        delete_store(store=store)

    def upload(self, store: str, upload: Upload, *, deadline: Deadline) -> RemoteDocument:
        """Return the document once it can be found; what fails or is cancelled is removed."""
        deadline.check()
        row = self._store(store)
        last = models.File.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        try:
            document = upload_document(
                scope=self.scope, store=row, upload=upload, deadline=deadline, is_waiting=True
            )
            if upload.on_progress is not None:
                upload.on_progress(1.0)
        except BaseException:
            # As at Gemini: whatever ends it, Ctrl+C and a failing listener too, leaves no document.
            # Known by its bytes: somebody else may bring one of that name at the same time.
            with upload.path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            left = row.files.filter(sha256=digest, pk__gt=last).values_list("pk", flat=True)
            delete_files(scope=self.scope, file_ids=list(left))
            raise
        return document

    def list_documents(self, store: str) -> list[RemoteDocument]:
        """Return the documents that the caller may read, oldest first."""
        files = models.File.objects.readable(self.scope).filter(store=self._store(store))
        return [
            as_remote_document(file)
            for file in files.light().select_related("store").order_by("pk")
        ]

    def delete_document(self, name: str) -> None:
        """Delete a document; one that is gone is no error."""
        store, _, number = name.partition("/documents/")
        if number.isascii() and number.isdigit() and len(number) < 19:
            files = models.File.objects.filter(pk=int(number), store__resource_name=store)
            delete_files(scope=self.scope, file_ids=list(files.values_list("pk", flat=True)))

    def answer(self, question: GroundedQuestion, *, deadline: Deadline) -> GroundedAnswer:
        """Return the whole answer of stores."""
        return answer_locally(question=question, scope=self.scope, deadline=deadline)

    def stream(
        self, question: GroundedQuestion, *, deadline: Deadline
    ) -> AsyncIterator[GroundedAnswer]:
        """Yield pieces as they come; leaving the iteration stops the model."""
        return stream_locally(question=question, scope=self.scope, deadline=deadline)

    def _store(self, name: str) -> models.Store:
        store = find_stores(names=[name], scope=self.scope)[0]
        if store.is_remote:
            raise NotFoundError("There is no local store “{name}”.", name=name)
        return store
