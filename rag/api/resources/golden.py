"""Golden questions by DRF: serializers, CSV import, viewset. Only a store's editors see them."""

from __future__ import annotations

from itertools import chain
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    extend_schema,
    extend_schema_field,
    extend_schema_view,
)
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response

from rag import models
from rag.api.http.errors import localize
from rag.api.http.fields import StrictSerializer
from rag.api.http.lookups import find_store
from rag.api.http.views import PROBLEMS
from rag.api.resources.filters import StoreList
from rag.api.resources.views import ScopedViews
from rag.core.errors import ConflictError
from rag.services.evaluation import (
    MAX_BYTES,
    MAX_TARGETS,
    TargetSpec,
    export_questions,
    import_questions,
    save_question,
    set_targets,
)
from rag.services.files import stream_lines
from rag.services.search import validated_query

_ID = {"min_value": 1, "max_value": 2**63 - 1}


class _TargetBody(StrictSerializer):
    """What must be found: a chunk, or any chunk of a file."""

    chunk = serializers.IntegerField(required=False, allow_null=True, source="chunk_id", **_ID)
    file = serializers.IntegerField(required=False, allow_null=True, source="file_id", **_ID)
    grade = serializers.IntegerField(default=1, min_value=1, max_value=3)


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "integer"}]})
class StoreName(serializers.CharField):  # type: ignore[misc]  # DRF has no types
    """A store by its id, slug or name; it is told by its id."""


class GoldenQuestionBody(StrictSerializer, serializers.ModelSerializer):  # type: ignore[misc]
    """A question with what must be found for it."""

    store = StoreName(source="store_id", help_text="The store's id, slug or name.")
    query = serializers.CharField(max_length=4000)
    targets = _TargetBody(many=True, required=False, max_length=MAX_TARGETS)

    class Meta:
        model = models.GoldenQuestion
        fields = (
            "id",
            "store",
            "query",
            "enabled",
            "note",
            "origin",
            "targets",
            "created_at",
            "updated_at",
        )
        read_only_fields = ("origin",)
        validators: list[Any] = []

    def to_representation(self, row: Any) -> dict[str, Any]:
        """Return the row; the store is its number."""
        return {**super().to_representation(row), "store": row.store_id}


class GoldenChange(StrictSerializer):
    """What can be changed; ``targets`` replaces all that were there."""

    query = serializers.CharField(required=False, max_length=4000)
    enabled = serializers.BooleanField(required=False)
    note = serializers.CharField(required=False, allow_blank=True, max_length=10_000)
    targets = _TargetBody(many=True, required=False, max_length=MAX_TARGETS)


class GoldenList(StoreList):
    """Of which questions."""

    name = None
    ordering = serializers.ChoiceField(["id", "-id"], default="id")
    store = serializers.CharField(required=False, help_text="The store's id, slug or name.")
    enabled = serializers.BooleanField(required=False, allow_null=True, default=None)
    origin = serializers.ChoiceField(models.GoldenQuestion.Origin.choices, required=False)
    words = serializers.CharField(required=False, max_length=200, help_text="Part of the question.")

    lookups = {"enabled": "enabled", "origin": "origin", "words": "query__icontains"}


class CsvForm(StrictSerializer):
    """A CSV file for a store."""

    store = serializers.CharField(help_text="The store's id, slug or name.")
    file = serializers.FileField(
        help_text="Columns: question, grade, file, passage, chunk, enabled, note."
    )


class CsvBody(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """What became of the lines."""

    new = serializers.IntegerField()
    known = serializers.IntegerField()
    refused = serializers.ListField(child=serializers.DictField())


@extend_schema_view(
    list=extend_schema(
        summary="List golden questions",
        parameters=[GoldenList],
        responses={200: GoldenQuestionBody, **PROBLEMS},
    ),
    retrieve=extend_schema(
        summary="Read a golden question", responses={200: GoldenQuestionBody, **PROBLEMS}
    ),
    create=extend_schema(
        summary="Make a golden question",
        description="200 when the store has the question: the targets are added to its own.",
        examples=[
            OpenApiExample(
                "A chunk that must be found",
                {
                    "store": "manuals",
                    "query": "How long is the warranty?",
                    "targets": [{"chunk": 12, "grade": 3}],
                },
                request_only=True,
            )
        ],
        responses={200: GoldenQuestionBody, 201: GoldenQuestionBody, **PROBLEMS},
    ),
    partial_update=extend_schema(
        summary="Change a golden question",
        request=GoldenChange,
        responses={200: GoldenQuestionBody, **PROBLEMS},
    ),
    destroy=extend_schema(summary="Delete a golden question", responses={204: None, **PROBLEMS}),
)
class GoldenQuestionViews(ScopedViews):
    """Golden questions of the stores that the caller may change."""

    queryset = models.GoldenQuestion.objects.prefetch_related("targets")
    serializer_class = GoldenQuestionBody
    list_filter = GoldenList
    lookup_value_regex = "[0-9]{1,19}"

    def get_parsers(self) -> list[Any]:
        """Return what reads the body: a CSV comes in a form, all else is JSON."""
        is_form = getattr(self.request, "content_type", "").startswith("multipart/")
        return [MultiPartParser()] if is_form else super().get_parsers()

    def create(self, request: Any) -> Response:
        """Make or complete a question."""
        values = self.checked(GoldenQuestionBody)
        facts: dict[str, Any] = {n: values[n] for n in ("enabled", "note") if n in values}
        question, is_new = save_question(
            scope=self.scope,
            store=find_store(values["store_id"], self.scope),
            query=values["query"],
            wanted=_wanted(values.get("targets", [])),
            facts={
                **facts,
                "origin": models.GoldenQuestion.Origin.API,
                "created_by": self.caller.user,
            },
        )
        return self.one(question, 201 if is_new else 200)

    def partial_update(self, request: Any, pk: str) -> Response:
        """Change a question."""
        question = self.editable_object()
        values = self.checked(GoldenChange, question)
        targets = values.pop("targets", None)
        if "query" in values:
            values["query"] = validated_query(query=values["query"])
            same = models.GoldenQuestion.objects.filter(store=question.store, query=values["query"])
            if same.exclude(pk=question.pk).exists():
                raise ConflictError("The store has this question already.")
        if targets is not None:
            set_targets(scope=self.scope, question=question, wanted=_wanted(targets))
        for name, value in values.items():
            setattr(question, name, value)
        question.save(update_fields=[*values, "updated_at"])
        return self.one(self.get_object())

    def destroy(self, request: Any, pk: str) -> Response:
        """Delete a question; what runs measured of it stays."""
        self.editable_object().delete()
        return Response(status=204)

    @extend_schema(
        summary="Export golden questions as CSV",
        parameters=[GoldenList],
        responses={(200, "text/csv"): OpenApiTypes.BINARY, **PROBLEMS},
    )
    @action(detail=False)  # type: ignore[untyped-decorator]
    def export(self, request: Any) -> StreamingHttpResponse:
        """Return the questions that pass the filters, one line a passage."""
        query = GoldenList.of_query(request)
        rows = query.narrow(self.get_queryset(), query.validated_data)
        if "store" in query.validated_data:
            rows = rows.filter(store=find_store(query.validated_data["store"], self.scope))
        lines = chain(["\ufeff"], export_questions(questions=rows))
        pieces = stream_lines(lines=lines)
        response = StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = 'attachment; filename="golden-questions.csv"'
        return response

    @extend_schema(
        summary="Import golden questions from CSV",
        request={"multipart/form-data": CsvForm},
        responses={200: CsvBody, **PROBLEMS},
    )
    @action(detail=False, methods=["post"], url_path="import")  # type: ignore[untyped-decorator]
    def take(self, request: Any) -> Response:
        """Take the lines of a CSV file; each that is refused is told with its number."""
        form = self.checked(CsvForm)
        taken = import_questions(
            scope=self.scope,
            store=find_store(form["store"], self.scope),
            data=form["file"].read(MAX_BYTES + 1),
            by=self.caller.user,
        )
        refused = [{"line": line, "error": localize(error)} for line, error in taken.problems]
        return Response({"new": taken.n_new, "known": taken.n_known, "refused": refused})


def _wanted(targets: list[dict[str, Any]]) -> list[TargetSpec]:
    return [
        TargetSpec(one.get("chunk_id"), one.get("file_id"), one.get("grade", 1)) for one in targets
    ]
