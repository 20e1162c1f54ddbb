"""Serializers of flows and versions, and localized errors and findings of flows.

Nothing is saved here: the views hand the values to services.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils.translation import get_language
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.parsers import BaseParser

from agents import models
from agents.api.http.sse import localize_error
from agents.api.http.views import StrictModelSerializer
from agents.flows.definition.archive import MAX_ARCHIVE, files_to_texts, read_flow_zip
from agents.flows.definition.findings import FlowFinding
from rag.api.http.errors import localize
from rag.api.http.fields import GroupsField, StrictSerializer
from rag.core.access import may_edit
from rag.core.errors import LimitError


class FlowBody(StrictModelSerializer):
    """A flow whose ``versions`` are read as far as active. Owner and groups are for editors."""

    owner = serializers.SlugRelatedField(
        get_user_model().USERNAME_FIELD, read_only=True, allow_null=True
    )
    runner_groups = GroupsField(many=True, required=False)
    editor_groups = GroupsField(many=True, required=False)
    active_version = serializers.SerializerMethodField(help_text="Its number; null without any.")
    may_edit = serializers.SerializerMethodField()

    class Meta:
        model = models.Flow
        fields = (
            "name",
            "title",
            "active_version",
            "may_edit",
            "owner",
            "runner_groups",
            "editor_groups",
            "is_public",
            "created_at",
            "updated_at",
        )
        read_only_fields = ("name", "created_at", "updated_at")

    def get_active_version(self, row: models.Flow) -> int | None:
        """Return the number of the version that runs."""
        return next((one.number for one in row.versions.all()), None)

    def get_may_edit(self, row: models.Flow) -> bool:
        """Return whether the caller may change the flow and decide its reviews."""
        return may_edit(self.context["caller"].scope, row.facts)

    def to_representation(self, row: models.Flow) -> dict[str, Any]:
        """Return the flow as the caller may see it."""
        data: dict[str, Any] = super().to_representation(row)
        if not data["may_edit"]:
            for name in ("owner", "runner_groups", "editor_groups"):
                data.pop(name)
        return data


@extend_schema_field(
    {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}
)
class _Texts(serializers.DictField):  # type: ignore[misc]  # DRF has no types
    """Texts by path; at least one."""


class FlowFilesBody(StrictSerializer):
    """A flow's folder: its texts by path, flow.yaml among them. A zip may be sent instead."""

    files = _Texts(
        child=serializers.CharField(trim_whitespace=False, allow_blank=True), allow_empty=False
    )
    note = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)
    activate = serializers.BooleanField(required=False, default=True)


class VersionBody(serializers.ModelSerializer):  # type: ignore[misc]  # DRF has no types
    """A version without its texts."""

    flow = serializers.CharField(source="flow.name", read_only=True)
    created_by = serializers.SlugRelatedField(
        get_user_model().USERNAME_FIELD, read_only=True, allow_null=True
    )

    class Meta:
        model = models.FlowVersion
        fields = ("flow", "number", "note", "is_active", "created_by", "created_at")
        read_only_fields = fields


class FindingBody(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """What a check found; an ``error`` must be mended before the version can run."""

    level = serializers.CharField()
    line = serializers.IntegerField()
    column = serializers.IntegerField()
    message = serializers.CharField()


class ZipParser(BaseParser):  # type: ignore[misc]  # DRF has no types
    """A zip as the request's body: what ``FlowFilesBody`` reads."""

    media_type = "application/zip"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the texts of the zip under ``files``."""
        raw = stream.read(MAX_ARCHIVE + 1)
        if len(raw) > MAX_ARCHIVE:
            raise LimitError("The archive has more than {limit} bytes.", limit=MAX_ARCHIVE)
        return {"files": files_to_texts(read_flow_zip(raw))}


def localize_run(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run with its own error and those of its nodes as sentences."""
    run = localize_error(told, _language())
    if "nodes" in run:
        run["nodes"] = [localize_error(node, _language()) for node in run["nodes"]]
    return run


def localize_findings(findings: Sequence[FlowFinding]) -> list[dict[str, Any]]:
    """Return findings as level, line, column and a sentence."""
    told = []
    for one in findings:
        said = localize(one.error)
        told.append(
            {
                "level": one.level,
                "line": one.line,
                "column": one.column,
                "message": f"{said['message']} {said['hint']}".strip(),
            }
        )
    return told


def _language() -> str:
    return get_language() or str(settings.LANGUAGE_CODE)
