"""Serializers of stores, files and chunks.

Nothing is saved here: the views hand the values to services.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Model
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rag import models
from rag.api.http.errors import localize
from rag.api.http.fields import GroupsField, JSONObjectField, StrictSerializer
from rag.core.errors import RAGError
from rag.core.types import RetrievalSettings


class _Row(StrictSerializer, serializers.ModelSerializer):  # type: ignore[misc]  # DRF has no types
    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()
        for field in fields.values():
            # That a name is taken is the service's word (409), whoever owns the other row.
            field.validators = [v for v in field.validators if not hasattr(v, "queryset")]
        return fields

    def to_representation(self, row: Any) -> dict[str, Any]:
        data: dict[str, Any] = super().to_representation(row)
        groups = {"reader_groups", "editor_groups", "restricted_to"} & data.keys()
        return {**data, **{name: sorted(data[name]) for name in groups}}


@extend_schema_field(
    {
        "type": "string",
        "minLength": 1,
        "maxLength": 100,
        "pattern": "^[-_0-9A-Za-z\u00aa-\U0010ffff]+$",
    }
)
class _Slug(serializers.SlugField):  # type: ignore[misc]  # DRF has no types
    """A slug with letters of all languages, which are no ``w`` in the regexes of JSON Schema."""


class StoreBody(_Row):
    """A store with its settings; ``embedding_model`` is chosen once, when it is made."""

    slug = _Slug(max_length=100, allow_unicode=True, required=False)
    owner = serializers.SlugRelatedField(
        get_user_model().USERNAME_FIELD, read_only=True, allow_null=True
    )
    reader_groups = GroupsField(many=True, required=False)
    editor_groups = GroupsField(many=True, required=False)
    retrieval = JSONObjectField(
        required=False, help_text="Retrieval settings that differ from the defaults."
    )
    vocabulary = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField(max_length=200), max_length=10_000),
        required=False,
        help_text='Types of things and their names: {"product": ["HX-400"]}.',
    )
    embedding_model = serializers.CharField(
        source="space.model",
        required=False,
        max_length=200,
        help_text="provider:model; the installation's own when it is left out.",
    )

    class Meta:
        model = models.Store
        fields = (
            "id",
            "name",
            "slug",
            "resource_name",
            "display_name",
            "backend",
            "owner",
            "is_public",
            "reader_groups",
            "editor_groups",
            "max_tokens_per_chunk",
            "max_overlap_tokens",
            "splitter",
            "ocr",
            "reads_hidden_cells",
            "retrieval",
            "vocabulary",
            "cache_ttl_s",
            "embedding_model",
            "n_chunks",
            "created_at",
            "updated_at",
        )
        read_only_fields = ("backend", "n_chunks")

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; the model of a store that exists is fixed."""
        fields = super().get_fields()
        fields["embedding_model"].read_only = isinstance(self.instance, Model)
        return fields

    def validate_retrieval(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return settings that every search will accept."""
        try:
            RetrievalSettings.from_dict(values)
        except RAGError as error:
            said = localize(error)
            raise serializers.ValidationError(f"{said['message']} {said['hint']}") from error
        return values


class ChangedStoreBody(StoreBody):
    """A store after a change."""

    files_queued = serializers.IntegerField(
        read_only=True, help_text="How many files are cut anew by another template."
    )

    class Meta:
        model = models.Store
        fields = (*StoreBody.Meta.fields, "files_queued")
        read_only_fields = StoreBody.Meta.read_only_fields


class FileBody(_Row):
    """A file: what it is called and may be filtered by, and what became of it."""

    metadata = JSONObjectField(required=False)
    restricted_to = GroupsField(many=True, required=False)
    error = serializers.SerializerMethodField()
    warnings = serializers.SerializerMethodField()

    class Meta:
        model = models.File
        fields = (
            "id",
            "store",
            "name",
            "kind",
            "size",
            "sha256",
            "encoding",
            "status",
            "error",
            "warnings",
            "progress",
            "content_type",
            "metadata",
            "restricted_to",
            "parser",
            "revision",
            "n_chunks",
            "created_at",
            "updated_at",
        )
        read_only_fields = ("store", "encoding", "progress", "revision", "n_chunks")

    def get_error(self, file: models.File) -> dict[str, Any] | None:
        """Return why the file could not be read, in the reader's language."""
        return localize(RAGError.from_dict(file.error)) if file.error else None

    def get_warnings(self, file: models.File) -> list[str]:
        """Return what was odd about the file, in the reader's language."""
        return [
            gettext(warning) if isinstance(warning, str) else _sentence(warning)
            for warning in file.warnings
        ]


class ChunkBody(_Row):
    """A chunk; an edited one replaces the span that it lies at, an added one only has a place."""

    class Meta:
        model = models.Chunk
        fields = (
            "id",
            "store",
            "file",
            "ordinal",
            "text",
            "context",
            "char_start",
            "char_end",
            "own_start",
            "page_first",
            "page_last",
            "heading_path",
            "block_kinds",
            "token_count",
            "content_type",
            "enabled",
            "origin",
            "is_live",
            "revision",
            "file_revision",
        )
        read_only_fields = fields


class ChunkChange(StrictSerializer):
    """What can be changed of a chunk."""

    enabled = serializers.BooleanField(required=False, help_text="Only enabled ones are found.")
    text = serializers.CharField(
        required=False, trim_whitespace=False, help_text="Embedded at once; up to 500 tokens."
    )
    seen_revision = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The revision whose text you changed: 409 when there is a newer one.",
    )


class NewChunk(StrictSerializer):
    """A chunk written by hand."""

    file = serializers.IntegerField(min_value=1, max_value=2**63 - 1)
    text = serializers.CharField(trim_whitespace=False, help_text="Up to 500 tokens.")
    after = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        help_text="The file's chunk that it comes behind; the file's beginning without.",
    )


def _sentence(stored: dict[str, Any]) -> str:
    said = localize(RAGError.from_dict(stored))
    return f"{said['message']} {said['hint']}".strip()
