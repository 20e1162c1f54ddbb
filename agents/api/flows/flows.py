"""Flows by DRF: definitions, files, checks."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import models
from agents.api.flows.serializers import (
    FindingBody,
    FlowBody,
    FlowFilesBody,
    ZipParser,
    localize_findings,
)
from agents.api.http.views import PROBLEMS, OwnedList, OwnedViews
from agents.flows.definition.archive import (
    FlowFiles,
    files_from_texts,
    files_to_texts,
    write_flow_zip,
)
from agents.flows.definition.inputs import input_schema
from agents.flows.versions.load import load_flow
from agents.flows.versions.versions import (
    activate_version,
    check_flow_files,
    delete_flow,
    find_flow,
    find_version,
    require_flow_editor,
    save_flow_version,
    update_flow,
)
from rag.api.http.authentication import RightsPermission
from rag.core.errors import InvalidInputError, RAGError, UnknownNameError

_FILES = {"application/json": FlowFilesBody, "application/zip": OpenApiTypes.BINARY}
# Of the active version its number alone: texts of all versions would fill the memory.
_ACTIVE = models.FlowVersion.objects.filter(is_active=True).only("flow_id", "number", "is_active")
_FORMS = ("json", "zip")
_CHECKED = {200: FindingBody(many=True), **PROBLEMS}


class FlowList(OwnedList):
    """Which flows."""

    ordering = serializers.ChoiceField(
        ["name", "-name", "id", "-id", "updated_at", "-updated_at"], default="name"
    )
    name = serializers.CharField(required=False, max_length=64, help_text="Part of the name.")

    def narrow(self, rows: QuerySet[Any], given: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that pass."""
        return rows.filter(name__icontains=given["name"]) if "name" in given else rows


@extend_schema_view(
    list=extend_schema(
        summary="List flows", parameters=[FlowList], responses={200: FlowBody, **PROBLEMS}
    ),
    partial_update=extend_schema(summary="Change a flow", responses={200: FlowBody, **PROBLEMS}),
    destroy=extend_schema(
        summary="Delete a flow with its versions and runs", responses={204: None, **PROBLEMS}
    ),
)
class FlowViews(OwnedViews):
    """Flows by name. Changing needs the permissions that the admin asks for too."""

    queryset = models.Flow.objects.select_related("owner").prefetch_related(
        Prefetch("versions", _ACTIVE), "runner_groups", "editor_groups"
    )
    serializer_class = FlowBody
    list_filter = FlowList
    parser_classes = (*OwnedViews.parser_classes, ZipParser)
    permission_classes = (RightsPermission,)
    lookup_value_regex = "[^/]+"

    def get_queryset(self) -> QuerySet[Any]:
        """Return the flows that the caller may run."""
        if getattr(self, "swagger_fake_view", False):
            return self.queryset.none()
        return self.queryset.all().runnable(self.scope)

    def get_object(self) -> models.Flow:
        """Return the flow of a name."""
        return find_flow(name=self.kwargs["pk"], scope=self.scope)

    @extend_schema(summary="Read a flow", responses={200: FlowBody, **PROBLEMS})
    def retrieve(self, request: HttpRequest, pk: str) -> Response:
        """Return a flow with the inputs that its runs may be given, and their JSON schema.

        `fault` says why the active version cannot run here, such as a type of node that is gone.
        """
        row = self.get_queryset().get(pk=self.get_object().pk)
        active = row.versions.filter(is_active=True).first()
        told: dict[str, Any] = {"inputs": {}, "input_schema": None, "fault": None}
        try:
            if active:
                flow = load_flow(yaml=active.yaml, prompts=active.prompts)
                inputs = flow.definition.inputs
                told["inputs"] = {name: one.description for name, one in inputs.items()}
                told["input_schema"] = input_schema(inputs)
        except RAGError as error:
            told["fault"] = error.localized(gettext)
        return Response({**self.get_serializer(row).data, **told})

    @extend_schema(
        summary="Import a flow",
        request=_FILES,
        responses={201: OpenApiTypes.OBJECT, **PROBLEMS},
    )
    def create(self, request: HttpRequest) -> Response:
        """Save a folder as the newest version of the flow that its YAML names.

        It runs at once, unless `activate` is false. Where its check finds errors it is refused
        with all of them (400) and nothing is stored.
        """
        values = self.checked(FlowFilesBody)
        files = files_from_texts(values["files"])
        with transaction.atomic():
            version = save_flow_version(files=files, scope=self.scope, note=values["note"])
            if values["activate"]:
                findings = activate_version(version=version, scope=self.scope)
            else:
                findings = check_flow_files(files=files, scope=self.scope)
        told = {
            "flow": version.flow.name,
            "version": version.number,
            "is_active": version.is_active,
            "findings": localize_findings(findings),
        }
        return Response(told, status=201)

    def partial_update(self, request: HttpRequest, pk: str) -> Response:
        """Change title, groups and publicity."""
        row = self.get_object()
        values = self.checked(FlowBody, row)
        update_flow(flow=row, scope=self.scope, values=values)
        return self.one(self.get_queryset().get(pk=row.pk))

    def destroy(self, request: HttpRequest, pk: str) -> Response:
        """Delete a flow."""
        delete_flow(flow=self.get_object(), scope=self.scope)
        return Response(status=204)

    @extend_schema(summary="Check a flow without saving it", request=_FILES, responses=_CHECKED)
    @action(detail=True, methods=["post"], pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def check(self, request: HttpRequest, pk: str) -> Response:
        """Return what is wrong or doubtful in a folder; the flow need not be there yet."""
        files = files_from_texts(self.checked(FlowFilesBody)["files"])
        return Response(localize_findings(check_flow_files(files=files, scope=self.scope)))

    @extend_schema(
        summary="Export a flow",
        parameters=[
            OpenApiParameter("version", int, description="Its number; else the active one."),
            OpenApiParameter("form", str, enum=list(_FORMS)),
        ],
        responses={
            (200, "application/json"): FlowFilesBody,
            (200, "application/zip"): OpenApiTypes.BINARY,
            **PROBLEMS,
        },
    )
    @action(detail=True, pagination_class=None)  # type: ignore[untyped-decorator]  # DRF has no types
    def export(self, request: Any, pk: str) -> Response | HttpResponse:
        """Return YAML and prompts, as JSON that can be posted again or as a zip."""
        row = self.get_object()
        require_flow_editor(flow=row, scope=self.scope)
        number = whole(request.query_params.get("version"), "version")
        version = find_version(flow=row, number=number)
        files = FlowFiles(version.yaml, version.prompts)
        form = request.query_params.get("form", "json")
        if form not in _FORMS:
            raise UnknownNameError("form of a flow", form, _FORMS)
        if form == "json":
            return Response({"files": files_to_texts(files), "note": version.note})
        answer = HttpResponse(write_flow_zip(files), content_type="application/zip")
        name = f"{row.name}-{version.number}.zip"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer


def whole(text: str | None, name: str) -> int | None:
    """Return a number of the address; raise InvalidInputError for what is none."""
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InvalidInputError("{name} must be a whole number.", name=name)
    return int(text)
