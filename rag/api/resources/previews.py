"""Chunking preview as JSON: what a template and sizes would make of a file; nothing is stored."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from rag import models
from rag.api.http.fields import StrictSerializer
from rag.core.access import Scope
from rag.core.documents import ChunkRule
from rag.core.plugins import PLUGINS
from rag.services.ingest import preview_chunks

_FIRST, _MOST = 20, 100


class PreviewWish(StrictSerializer):
    """Which rule; what is left out is the file's own."""

    splitter = serializers.CharField(
        required=False,
        max_length=100,
        allow_blank=True,
        help_text="A chunking template; empty is the installation's.",
    )
    max_tokens_per_chunk = serializers.IntegerField(required=False, min_value=50, max_value=500)
    max_overlap_tokens = serializers.IntegerField(required=False, min_value=0, max_value=100)
    limit = serializers.IntegerField(
        default=_FIRST, min_value=0, max_value=_MOST, help_text="How many chunks are told."
    )


class PreviewBody(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """What a rule makes of up to 200,000 characters of a file."""

    class _Chunk(serializers.Serializer):  # type: ignore[misc]
        text = serializers.CharField()
        context = serializers.CharField(help_text="Of an earlier chunk: a table's header, a lead.")
        char_start = serializers.IntegerField()
        char_end = serializers.IntegerField()
        own_start = serializers.IntegerField()
        parent_start = serializers.IntegerField(allow_null=True)
        page_first = serializers.IntegerField(allow_null=True)
        page_last = serializers.IntegerField(allow_null=True)
        heading_path = serializers.ListField(child=serializers.CharField())
        token_count = serializers.IntegerField()

    file = serializers.IntegerField()
    splitter = serializers.CharField()
    max_tokens_per_chunk = serializers.IntegerField()
    max_overlap_tokens = serializers.IntegerField(help_text="As it would be used.")
    n_today = serializers.IntegerField(help_text="Chunks of the same stretch at present.")
    n_chunks = serializers.IntegerField(help_text="Edited ones, which stay, are among them.")
    n_total = serializers.IntegerField(help_text="Of the whole file; estimated if it is longer.")
    mean_tokens = serializers.FloatField()
    is_whole = serializers.BooleanField()
    chunks = _Chunk(many=True)


def preview_of(*, scope: Scope, file: models.File, wish: dict[str, Any]) -> dict[str, Any]:
    """Return the preview of a file; raise UnknownNameError for an unknown template."""
    own = file.chunk_rule
    rule = ChunkRule(
        wish.get("max_tokens_per_chunk", own.max_tokens),
        wish.get("max_overlap_tokens", own.overlap_tokens),
        wish.get("splitter", own.splitter),
    )
    if rule.splitter:
        PLUGINS.get("splitter", rule.splitter)
    made = preview_chunks(scope=scope, file_id=file.pk, rule=rule)
    names = list(PreviewBody._Chunk().fields)
    chunks = [asdict(chunk) for chunk in made.chunks[: wish["limit"]]]
    return {
        "file": file.pk,
        "splitter": rule.splitter,
        "max_tokens_per_chunk": rule.max_tokens,
        "max_overlap_tokens": rule.effective_overlap,
        "n_today": made.n_today,
        "n_chunks": made.n_chunks,
        "n_total": made.n_total,
        "mean_tokens": round(made.mean_tokens, 1),
        "is_whole": made.is_whole,
        "chunks": [{name: chunk[name] for name in names} for chunk in chunks],
    }
