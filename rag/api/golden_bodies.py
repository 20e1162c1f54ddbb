"""Golden questions as JSON, and what lists of them can be asked for."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from rag import models
from rag.api.fields import StrictSerializer
from rag.api.filters import StoreList
from rag.services.golden_questions import MAX_TARGETS

_ID = {"min_value": 1, "max_value": 2**63 - 1}


class _TargetBody(StrictSerializer):
    """What must be found: a chunk, or any chunk of a file."""

    chunk = serializers.IntegerField(required=False, allow_null=True, source="chunk_id", **_ID)
    file = serializers.IntegerField(required=False, allow_null=True, source="file_id", **_ID)
    grade = serializers.IntegerField(default=1, min_value=1, max_value=3)


class GoldenQuestionBody(StrictSerializer, serializers.ModelSerializer):  # type: ignore[misc]
    """A question with what must be found for it."""

    store = serializers.CharField(source="store_id", help_text="The store's id, slug or name.")
    query = serializers.CharField(max_length=4000)
    targets = _TargetBody(many=True, required=False, max_length=MAX_TARGETS)

    class Meta:
        model = models.GoldenQuestion
        fields = (
            "id", "store", "query", "enabled", "note", "origin", "targets", "created_at",
            "updated_at",
        )  # fmt: skip
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

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        exact: dict[str, Any] = {"origin": given["origin"]} if "origin" in given else {}
        if given["enabled"] is not None:
            exact["enabled"] = given["enabled"]
        if "words" in given:
            exact["query__icontains"] = given["words"]
        return rows.filter(**exact)


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
