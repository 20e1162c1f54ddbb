"""Versions and runs of flows by DRF."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents import models
from agents.api.flows.flows import whole
from agents.api.flows.serializers import VersionBody, localize_run
from agents.api.http.views import PROBLEMS, OwnerPermission
from agents.flows.definition.archive import FlowFiles, files_to_texts
from agents.flows.runs.read import find_run, listed_runs, run_summaries, run_summary
from agents.flows.versions.versions import (
    activate_version,
    diff_flow_versions,
    find_flow,
    find_version,
    require_flow_editor,
    roll_back_flow,
)
from rag.api.http.authentication import RightsPermission
from rag.api.http.fields import StrictSerializer
from rag.api.http.views import ApiViews
from rag.core.access import Scope


class _InFlow(ApiViews):
    """What lies below one flow's address."""

    filters: dict[str, Any]

    @property
    def scope(self) -> Scope:
        """Return what the caller may see."""
        scope: Scope = self.request.auth.scope
        return scope

    @property
    def flow(self) -> models.Flow:
        """Return the flow of the address; raise NotFoundError."""
        return find_flow(name=self.kwargs["flow"], scope=self.scope)

    def first_rows(self, rows: Any, limit: int) -> Any:
        """Return the first of the rows, which are in order, for a page."""
        return rows[:limit]

    def page(self, rows: Any, filters: type[StrictSerializer]) -> list[Any]:
        """Return the rows of one page, as the query of the address wants them."""
        query = filters.of_query(self.request)
        self.filters = query.validated_data
        rows = rows.filter(status=self.filters["status"]) if self.filters.get("status") else rows
        found: list[Any] = self.paginate_queryset(rows)
        return found


class VersionList(StrictSerializer):
    """How many versions, from where on."""

    ordering = serializers.ChoiceField(["-number", "number"], default="-number")
    limit = serializers.IntegerField(default=50, min_value=1, max_value=200)
    cursor = serializers.CharField(required=False, max_length=2000)


class FlowRunList(VersionList):
    """Which runs."""

    ordering = serializers.ChoiceField(["-id", "id"], default="-id")
    status = serializers.ChoiceField(models.FlowRun.Status.choices, required=False)


class VersionViews(_InFlow):
    """Versions of a flow, for its editors; never changed once they are there."""

    # The permissions asked for are those of flows.
    queryset = models.Flow.objects.all()
    serializer_class = VersionBody
    permission_classes = (RightsPermission,)

    @property
    def flow(self) -> models.Flow:
        """Return the flow of the address; raise ForbiddenError for all but its editors."""
        flow = super().flow
        require_flow_editor(flow=flow, scope=self.scope)
        return flow

    @extend_schema(
        summary="List versions",
        parameters=[VersionList],
        responses={200: VersionBody(many=True), **PROBLEMS},
    )
    def list(self, request: HttpRequest, flow: str) -> Response:
        """Return the versions, newest first."""
        found = self.flow.versions.select_related("flow", "created_by")
        rows = self.page(found, VersionList)
        return self.get_paginated_response(VersionBody(rows, many=True).data)

    @extend_schema(summary="Read a version", responses={200: VersionBody, **PROBLEMS})
    def retrieve(self, request: HttpRequest, flow: str, number: int) -> Response:
        """Return a version with its texts by path, under `files`."""
        row = find_version(flow=self.flow, number=number)
        texts = files_to_texts(FlowFiles(row.yaml, row.prompts))
        return Response({**VersionBody(row).data, "files": texts})

    @extend_schema(
        summary="Let new runs take a version",
        request=None,
        responses={200: VersionBody, **PROBLEMS},
    )
    def activate(self, request: HttpRequest, flow: str, number: int) -> Response:
        """Activate a version; 400 when its check finds errors."""
        row = find_version(flow=self.flow, number=number)
        activate_version(version=row, scope=self.scope)
        return Response(VersionBody(row).data)

    @extend_schema(
        summary="Take the version before the active one",
        request=None,
        responses={200: VersionBody, **PROBLEMS},
    )
    def rollback(self, request: HttpRequest, flow: str) -> Response:
        """Activate the version before the active one; 409 without any."""
        return Response(VersionBody(roll_back_flow(flow=self.flow, scope=self.scope)).data)

    @extend_schema(
        summary="Compare two versions",
        responses={200: OpenApiTypes.OBJECT, **PROBLEMS},
        parameters=[OpenApiParameter("against", int, description="Else the active one.")],
    )
    def diff(self, request: Any, flow: str, number: int) -> Response:
        """Return what changes from `against` to this version, as a unified diff."""
        found = self.flow
        against = whole(request.query_params.get("against"), "against")
        old, new = (find_version(flow=found, number=one) for one in (against, number))
        told = {"old": old.number, "new": new.number, "diff": diff_flow_versions(old=old, new=new)}
        return Response(told)


class RunViews(_InFlow):
    """Runs of a flow: one's own, for editors of the flow all, without others' words."""

    queryset = models.FlowRun.objects.all()
    permission_classes = (OwnerPermission,)

    @extend_schema(
        summary="List runs",
        parameters=[FlowRunList],
        operation_id="flows_runs_list",
        responses={200: OpenApiTypes.OBJECT, **PROBLEMS},
    )
    def list(self, request: HttpRequest, flow: str) -> Response:
        """Return runs, newest first, without their nodes."""
        rows = self.page(listed_runs(flow=self.flow, scope=self.scope), FlowRunList)
        told = run_summaries(runs=rows, scope=self.scope)
        return self.get_paginated_response([localize_run(one) for one in told])

    @extend_schema(summary="Read a run", responses={200: OpenApiTypes.OBJECT, **PROBLEMS})
    def retrieve(self, request: HttpRequest, flow: str, key: str) -> Response:
        """Return a run: each visit to a node with times, tokens, route and error; the end state."""
        row = find_run(flow=self.flow, key=key, scope=self.scope)
        return Response(localize_run(run_summary(run=row, scope=self.scope, is_whole=True)))
