"""Stores and chunks by DRF."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework.response import Response

from rag import models
from rag.api.http.lookups import find_store
from rag.api.http.views import PROBLEMS
from rag.api.resources.filters import ChunkList, StoreList
from rag.api.resources.serializers import (
    ChangedStoreBody,
    ChunkBody,
    ChunkChange,
    NewChunk,
    StoreBody,
)
from rag.api.resources.views import ScopedViews
from rag.core.errors import ForbiddenError
from rag.services.chunks import add_chunk, delete_chunks, edit_chunk, find_first_chunks
from rag.services.files import set_chunks_enabled
from rag.services.reindex import rechunk_store
from rag.services.stores import create_store, delete_store, update_store

_GROUPS = ("reader_groups", "editor_groups")
_NEW_STORE = OpenApiExample(
    "A store for manuals",
    {"name": "Manuals", "slug": "manuals", "max_tokens_per_chunk": 300, "reader_groups": ["staff"]},
    request_only=True,
)


@extend_schema_view(
    list=extend_schema(
        summary="List stores", parameters=[StoreList], responses={200: StoreBody, **PROBLEMS}
    ),
    retrieve=extend_schema(summary="Read a store", responses={200: StoreBody, **PROBLEMS}),
    create=extend_schema(
        summary="Make a store", examples=[_NEW_STORE], responses={201: StoreBody, **PROBLEMS}
    ),
    partial_update=extend_schema(
        summary="Change a store",
        description="Another `splitter` queues the store's files to be cut anew (a reindex run of "
        "chunks); `files_queued` is how many. After any other change files keep their chunks until "
        "they are indexed again.",
        responses={200: ChangedStoreBody, **PROBLEMS},
    ),
    destroy=extend_schema(
        summary="Delete a store with all its files", responses={204: None, **PROBLEMS}
    ),
)
class StoreViews(ScopedViews):
    """Stores, addressed by id or slug; digits mean an id."""

    queryset = models.Store.objects.select_related("space", "owner").prefetch_related(*_GROUPS)
    serializer_class = StoreBody
    list_filter = StoreList
    lookup_value_regex = "[^/]+"

    def get_object(self) -> models.Store:
        """Return the store of an id or a slug."""
        return find_store(self.kwargs["pk"].replace("\0", "\ufffd"), self.scope)

    def create(self, request: Any) -> Response:
        """Make a store that the caller owns."""
        if self.scope.only_store_ids is not None:
            raise ForbiddenError("This key is limited to some stores and cannot make others.")
        values = self.checked(StoreBody)
        groups = {name: values.pop(name) for name in _GROUPS if name in values}
        model = values.pop("space", {}).get("model", "")
        store = create_store(embedding_model=model, owner=self.caller.user, **values)
        update_store(scope=self.scope, store=store, values={}, **groups)
        return self.one(store, 201)

    def partial_update(self, request: Any, pk: str) -> Response:
        """Change a store."""
        store = self.editable_object()
        values = self.checked(StoreBody, store)
        groups = {name: values.pop(name) for name in _GROUPS if name in values}
        template = store.splitter
        update_store(scope=self.scope, store=store, values=values, **groups)
        is_cut = store.splitter != template
        n_files = rechunk_store(scope=self.scope, store=store) if is_cut else 0
        return Response({**self.get_serializer(store).data, "files_queued": n_files})

    def destroy(self, request: Any, pk: str) -> Response:
        """Delete a store."""
        delete_store(store=self.editable_object())
        return Response(status=204)


@extend_schema_view(
    list=extend_schema(
        summary="List chunks", parameters=[ChunkList], responses={200: ChunkBody, **PROBLEMS}
    ),
    retrieve=extend_schema(summary="Read a chunk", responses={200: ChunkBody, **PROBLEMS}),
    create=extend_schema(
        summary="Add a chunk to a file", request=NewChunk, responses={201: ChunkBody, **PROBLEMS}
    ),
    partial_update=extend_schema(
        summary="Change a chunk's text, or whether it is found",
        request=ChunkChange,
        examples=[
            OpenApiExample("Never found again", {"enabled": False}, request_only=True),
            OpenApiExample(
                "Another text",
                {"text": "The warranty is three years.", "seen_revision": 1},
                request_only=True,
            ),
        ],
        responses={200: ChunkBody, **PROBLEMS},
    ),
    destroy=extend_schema(
        summary="Delete a chunk",
        description="Its text, vectors, terms and revisions. Indexing the file does not bring it "
        "back.",
        responses={204: None, **PROBLEMS},
    ),
)
class ChunkViews(ScopedViews):
    """Chunks of readable files: cut from them, and corrected or added by people."""

    queryset = models.Chunk.objects.all()
    serializer_class = ChunkBody
    list_filter = ChunkList
    lookup_value_regex = "[0-9]{1,19}"

    def first_rows(self, rows: QuerySet[Any], limit: int) -> QuerySet[Any]:
        """Return the first rows that hold all words."""
        if words := self.filters.get("words", ""):
            stores = models.Store.objects.readable(self.scope)
            if "store" in self.filters:
                stores = stores.filter(pk=find_store(self.filters["store"], self.scope).pk)
            # What a newer revision replaced is in no index.
            ids = list(stores.values_list("pk", flat=True)) if self.filters["is_live"] else []
            rows = find_first_chunks(
                chunks=rows, stores=ids, words=words, limit=limit, in_order=True
            )
        return super().first_rows(rows, limit)

    def create(self, request: Any) -> Response:
        """Add a chunk."""
        values = self.checked(NewChunk)
        file_id = values.pop("file")
        made = add_chunk(scope=self.scope, file_id=file_id, by=self.caller.user, **values)
        return self.one(made, 201)

    def partial_update(self, request: Any, pk: str) -> Response:
        """Change a chunk."""
        chunk = self.editable_object()
        values = self.checked(ChunkChange, chunk)
        if "text" in values:
            edit_chunk(
                scope=self.scope,
                chunk_id=chunk.pk,
                text=values["text"],
                by=self.caller.user,
                expected_revision=values.get("seen_revision", chunk.revision),
            )
        if "enabled" in values:
            set_chunks_enabled(scope=self.scope, chunk_ids=[chunk.pk], enabled=values["enabled"])
        return self.one(self.get_object())

    def destroy(self, request: Any, pk: str) -> Response:
        """Delete a chunk."""
        chunk = self.editable_object()
        delete_chunks(scope=self.scope, chunk_ids=[chunk.pk], by=self.caller.user)
        return Response(status=204)
