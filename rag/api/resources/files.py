"""Files by DRF: upload form, metadata, text windows, the original."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from django.db.models.functions import Length, Substr
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response

from rag import models
from rag.api.http.errors import localize
from rag.api.http.fields import JSONObjectField, StrictSerializer
from rag.api.http.idempotency import done_once, repeatable, upload_digest
from rag.api.http.lookups import find_store
from rag.api.http.ranges import ByteRange, deliver_bytes
from rag.api.http.views import PROBLEMS
from rag.api.resources.filters import FileList
from rag.api.resources.previews import PreviewBody, PreviewWish, preview_of
from rag.api.resources.serializers import FileBody
from rag.api.resources.views import ScopedViews
from rag.core.errors import InvalidInputError
from rag.services.files import (
    UploadRequest,
    UploadResult,
    delete_files,
    open_original,
    stream_bytes,
    update_file,
    upload_many,
)
from rag.stages.detect.decode import encoding_name


class UploadForm(StrictSerializer):
    """A form with files, posted as multipart/form-data."""

    store = serializers.CharField(help_text="The store's id, slug or name.")
    files = serializers.ListField(
        child=serializers.FileField(allow_empty_file=True),
        min_length=1,
        max_length=100,
        help_text="One or more documents, each up to 100 MB; zip bundles are unpacked.",
    )
    content_type = serializers.CharField(required=False, max_length=60)
    metadata = JSONObjectField(required=False, help_text="A JSON object, for all files.")
    encoding = serializers.CharField(
        required=False,
        max_length=40,
        help_text="Of texts, such as gb18030, where it is told wrongly from the bytes.",
    )
    replace = serializers.BooleanField(
        default=False,
        help_text="A file whose name the store has becomes that file's next revision.",
    )

    def validate_encoding(self, value: str) -> str:
        """Return the codec; an unknown one is told beside its field."""
        try:
            return encoding_name(value)
        except InvalidInputError as error:
            raise serializers.ValidationError(str(error)) from error


WINDOW, _BYTES = 100_000, "application/octet-stream"


class TextWindow(StrictSerializer):
    """Which code points of the text."""

    # PostgreSQL counts characters from 1, in 32 bits.
    start = serializers.IntegerField(default=0, min_value=0, max_value=2**31 - 2)
    end = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2**31 - 1,
        help_text=f"At most {WINDOW} after “start”; that is the default.",
    )


class TextBody(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """A window of a file's canonical text; chunks and citations count its code points."""

    file = serializers.IntegerField()
    revision = serializers.IntegerField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()
    length = serializers.IntegerField(help_text="Of the whole text.")
    text = serializers.CharField()


class UploadBody(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """What became of each document of an upload."""

    class _Result(serializers.Serializer):  # type: ignore[misc]
        name = serializers.CharField()
        outcome = serializers.ChoiceField(["taken", "replaced", "known", "refused"])
        file = FileBody(allow_null=True)
        error = serializers.DictField(allow_null=True, help_text="Message, hint and params.")

    results = _Result(many=True)


@extend_schema_view(
    list=extend_schema(
        summary="List files", parameters=[FileList], responses={200: FileBody, **PROBLEMS}
    ),
    retrieve=extend_schema(summary="Read a file's facts", responses={200: FileBody, **PROBLEMS}),
    create=extend_schema(
        summary="Upload files",
        description="201 when something was taken or replaced, 200 when the store had it all, "
        "422 when every file was refused. Indexing follows; see the files' status.",
        request={"multipart/form-data": UploadForm},
        responses={200: UploadBody, 201: UploadBody, 422: UploadBody, **PROBLEMS},
    ),
    partial_update=extend_schema(
        summary="Change what a file is called, filtered by and who reads it",
        responses={200: FileBody, **PROBLEMS},
    ),
    destroy=extend_schema(summary="Delete a file", responses={204: None, **PROBLEMS}),
)
class FileViews(ScopedViews):
    """Files that the caller may read."""

    queryset = models.File.objects.light().prefetch_related("restricted_to")
    serializer_class = FileBody
    list_filter = FileList
    lookup_value_regex = "[0-9]{1,19}"

    def get_parsers(self) -> list[Any]:
        """Return what reads the body: uploads are forms, all else is JSON."""
        if getattr(self.request, "method", "") == "POST":
            return [MultiPartParser()]
        return super().get_parsers()  # type: ignore[no-any-return]

    def create(self, request: Any) -> Response:
        """Take documents into a store; one that is refused does not stop the others.

        With `Idempotency-Key` the same form is taken once; sent again it gets the same answer.
        """
        form = self.checked(UploadForm)
        parts = [json.dumps({**form, "files": [one.name for one in form["files"]]})]
        if "Idempotency-Key" in request.headers:
            parts += [upload_digest(upload) for upload in form["files"]]
        once = repeatable(request._request, self.caller, *parts, state=self.scope.fingerprint)
        told = done_once(once, lambda: self._upload(form))
        return Response({"results": told["results"]}, status=told["status"])

    def _upload(self, form: dict[str, Any]) -> dict[str, Any]:
        store = find_store(form["store"], self.scope)
        store.require_editable(self.scope)
        wish = UploadRequest(
            form.get("content_type", ""),
            form.get("metadata", {}),
            form["replace"],
            form.get("encoding", ""),
        )
        taken = list(
            chain.from_iterable(
                upload_many(
                    scope=self.scope,
                    store=store,
                    path=Path(upload.temporary_file_path()),
                    name=upload.name,
                    request=wish,
                )
                for upload in form["files"]
            )
        )
        outcomes = {one.outcome for one in taken}
        is_new = outcomes & {"taken", "replaced"}
        status = 201 if is_new else 200 if "known" in outcomes else 422
        return {"status": status, "results": self._serialize(taken)}

    def partial_update(self, request: Any, pk: str) -> Response:
        """Change a file."""
        file = self.editable_object()
        values = self.checked(FileBody, file)
        update_file(
            scope=self.scope,
            file=file,
            name=values.get("name", file.name),
            content_type=values.get("content_type", file.content_type),
            metadata=values.get("metadata", file.metadata),
            restricted_to=values.get("restricted_to"),
        )
        return self.one(self.get_object())

    def destroy(self, request: Any, pk: str) -> Response:
        """Delete a file with its chunks and bytes."""
        delete_files(scope=self.scope, file_ids=[self.editable_object().pk])
        return Response(status=204)

    @extend_schema(
        summary="Download the original",
        responses={
            (200, _BYTES): OpenApiTypes.BINARY,
            (206, _BYTES): OpenApiTypes.BINARY,
            304: None,
            **PROBLEMS,
        },
    )
    @action(detail=True)  # type: ignore[untyped-decorator]
    def original(self, request: Any, pk: str) -> HttpResponseBase:
        """Return the bytes as they were uploaded, as a download only; `Range` asks for some."""
        file = self.get_object()
        content, size = open_original(file=file)

        def respond(part: ByteRange) -> HttpResponseBase:
            if request.method == "HEAD":
                return HttpResponse(content_type=_BYTES)
            content.seek(part.start)
            return StreamingHttpResponse(stream_bytes(content, part.length), content_type=_BYTES)

        response = deliver_bytes(request, size=size, digest=file.sha256, respond=respond)
        if not response.streaming:
            content.close()
        response["Cache-Control"] = "private, no-cache"
        response["Content-Disposition"] = (
            content_disposition_header(True, file.name) or "attachment"
        )
        response["Content-Security-Policy"] = "sandbox"
        response["X-Content-Type-Options"] = "nosniff"
        return response

    @extend_schema(
        summary="Read the text", parameters=[TextWindow], responses={200: TextBody, **PROBLEMS}
    )
    @action(detail=True)  # type: ignore[untyped-decorator]
    def text(self, request: Any, pk: str) -> Response:
        """Return a window of the canonical text."""
        query = TextWindow.of_query(request)
        file = self.get_object()
        start = query.validated_data["start"]
        end = min(query.validated_data.get("end", start + WINDOW), start + WINDOW)
        length, text, revision = (
            models.File.objects.filter(pk=file.pk)
            .values_list(
                Length("canonical_text"),
                Substr("canonical_text", start + 1, max(0, end - start)),
                "revision",
            )
            .get()
        )
        text = text or ""
        window = {"start": start, "end": start + len(text), "length": length, "text": text}
        return Response({"file": file.pk, "revision": revision, **window})

    @extend_schema(
        summary="Preview its chunks by another template or size",
        parameters=[PreviewWish],
        responses={200: PreviewBody, **PROBLEMS},
    )
    @action(detail=True)  # type: ignore[untyped-decorator]
    def preview(self, request: Any, pk: str) -> Response:
        """Return what a rule would make of the text; nothing is stored."""
        query = PreviewWish.of_query(request)
        file = self.readable_row(pk=self.get_object().pk)
        return Response(preview_of(scope=self.scope, file=file, wish=query.validated_data))

    def _serialize(self, taken: Iterable[UploadResult]) -> list[dict[str, Any]]:
        return [
            {
                "name": one.name,
                "outcome": one.outcome,
                "file": None if one.file is None else self.get_serializer(one.file).data,
                "error": None if one.error is None else localize(one.error),
            }
            for one in taken
        ]
