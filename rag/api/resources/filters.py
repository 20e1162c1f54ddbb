"""List filters: query parameters of stores, files and chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from rag import models
from rag.api.http.fields import JSONObjectField, StrictSerializer


class StoreList(StrictSerializer):
    """Of which stores, in which order, how many."""

    name = serializers.CharField(required=False, help_text="Part of the name.")
    ordering = serializers.ChoiceField(
        ["id", "-id", "name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"],
        default="id",
    )
    limit = serializers.IntegerField(default=50, min_value=1, max_value=200)
    cursor = serializers.CharField(
        required=False, max_length=2000, help_text="From “next” of the page before."
    )

    # Which parameters narrow the list, and by which lookup.
    lookups: Mapping[str, str] = {"name": "name__icontains"}

    def narrow(self, rows: QuerySet[Any], given: Mapping[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        asked = {way: given.get(name) for name, way in self.lookups.items()}
        return rows.filter(**{way: value for way, value in asked.items() if value is not None})


class FileList(StoreList):
    """Of which files."""

    ordering = serializers.ChoiceField(
        [
            "id",
            "-id",
            "name",
            "-name",
            "size",
            "-size",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ],
        default="id",
    )
    store = serializers.CharField(required=False, help_text="The store's id, slug or name.")
    status = serializers.ChoiceField(models.File.Status.choices, required=False)
    kind = serializers.CharField(required=False, help_text="Such as pdf or docx.")
    content_type = serializers.CharField(required=False)
    metadata = JSONObjectField(
        required=False, help_text='JSON that the file\'s metadata contains: {"lang": "zh"}.'
    )

    lookups = {
        "name": "name__icontains",
        "status": "status",
        "kind": "kind",
        "content_type": "content_type",
        "metadata": "metadata__contains",
    }


class ChunkList(StoreList):
    """Of which chunks."""

    name = None
    ordering = serializers.ChoiceField(
        ["id", "-id", "ordinal", "-ordinal"],
        default="id",
        help_text="The position in a file only together with “file”.",
    )
    store = serializers.CharField(required=False, help_text="The store's id, slug or name.")
    file = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    enabled = serializers.BooleanField(required=False, allow_null=True, default=None)
    content_type = serializers.CharField(required=False)
    is_live = serializers.BooleanField(
        default=True, help_text="False: chunks that a newer revision of their file replaced."
    )
    words = serializers.CharField(
        required=False, max_length=200, help_text="All of them must be in the text."
    )
    lookups = {name: name for name in ("is_live", "enabled", "file", "content_type")}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values; positions of many files make no order."""
        if attrs["ordering"].endswith("ordinal") and "file" not in attrs:
            raise serializers.ValidationError({"ordering": _("Choose a file too.")})
        return attrs
