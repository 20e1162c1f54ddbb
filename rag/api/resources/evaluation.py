"""Evaluation runs by DRF: serializers, filters, viewset. Only a store's editors see them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from rag import models
from rag.api.http.errors import localize
from rag.api.http.fields import JSONObjectField, StrictSerializer
from rag.api.http.lookups import find_store
from rag.api.http.views import PROBLEMS
from rag.api.resources.filters import StoreList
from rag.api.resources.views import ScopedViews
from rag.core.errors import RAGError
from rag.core.types import RetrievalSettings
from rag.services.evaluation import compare_runs, start_evaluation


class EvaluationRunBody(serializers.ModelSerializer):  # type: ignore[misc]  # DRF has no types
    """A run: how far it is, by which settings and model it asks, and the mean figures."""

    error = serializers.SerializerMethodField()

    class Meta:
        model = models.EvaluationRun
        fields = (
            "id",
            "store",
            "state",
            "error",
            "space",
            "model",
            "chat_model",
            "settings",
            "settings_hash",
            "label",
            "n_questions",
            "n_done",
            "n_lost",
            "metrics",
            "took_ms",
            "created_at",
        )
        read_only_fields = fields

    def get_error(self, run: models.EvaluationRun) -> dict[str, Any] | None:
        """Return why the run failed, in the reader's language."""
        return localize(RAGError.from_dict(run.error)) if run.error else None


class NewRun(StrictSerializer):
    """A store whose golden questions are asked now."""

    store = serializers.CharField(help_text="The store's id, slug or name.")
    settings = JSONObjectField(required=False, help_text="Settings that differ from the store's.")
    label = serializers.CharField(required=False, max_length=200, allow_blank=True)


class ResultBody(serializers.ModelSerializer):  # type: ignore[misc]  # DRF has no types
    """One question of a run."""

    class Meta:
        model = models.EvaluationResult
        fields = ("question", "query", "n_expected", "chunk_ids", "ranks", "metrics", "answer")
        read_only_fields = fields


class EvaluationRunList(StoreList):
    """Of which runs."""

    name = None
    ordering = serializers.ChoiceField(["id", "-id"], default="-id")
    store = serializers.CharField(required=False, help_text="The store's id, slug or name.")

    lookups: Any = {}


class Against(StrictSerializer):
    """The run before."""

    before = serializers.IntegerField(min_value=1, max_value=2**63 - 1)


@extend_schema_view(
    list=extend_schema(
        summary="List evaluation runs",
        parameters=[EvaluationRunList],
        responses={200: EvaluationRunBody, **PROBLEMS},
    ),
    retrieve=extend_schema(
        summary="Read an evaluation run", responses={200: EvaluationRunBody, **PROBLEMS}
    ),
    create=extend_schema(
        summary="Ask a store's golden questions",
        request=NewRun,
        description="A worker asks them: read the run until its state is neither waiting nor "
        "running. The same order while one is under way is that one.",
        responses={202: EvaluationRunBody, **PROBLEMS},
    ),
    destroy=extend_schema(summary="Delete an evaluation run", responses={204: None, **PROBLEMS}),
)
class EvaluationRunViews(ScopedViews):
    """Evaluation runs of the stores that the caller may change."""

    queryset = models.EvaluationRun.objects.all()
    serializer_class = EvaluationRunBody
    list_filter = EvaluationRunList
    lookup_value_regex = "[0-9]{1,19}"
    # Without PATCH: what was measured is not changed.
    http_method_names: Any = ("get", "head", "options", "post", "delete")

    def create(self, request: Any) -> Response:
        """Order an evaluation."""
        values = self.checked(NewRun)
        store = find_store(values["store"], self.scope)
        own = store.retrieval_settings.as_dict()
        settings = RetrievalSettings.from_dict({**own, **values.get("settings", {})})
        run = start_evaluation(
            scope=self.scope,
            store=store,
            settings=settings,
            facts={"label": values.get("label", ""), "created_by": self.caller.user},
        )
        return self.one(run, 202)

    def destroy(self, request: Any, pk: str) -> Response:
        """Delete a run with its results."""
        self.editable_object().delete()
        return Response(status=204)

    @extend_schema(
        summary="Read the results of a run, question by question",
        responses={200: ResultBody(many=True), **PROBLEMS},
    )
    @action(detail=True)  # type: ignore[untyped-decorator]
    def results(self, request: Any, pk: str) -> Response:
        """Return every question of the run."""
        rows = self.get_object().results.order_by("pk")
        return Response({"results": ResultBody(rows, many=True).data})

    @extend_schema(
        summary="Compare a run with one before",
        parameters=[Against],
        responses={200: dict, **PROBLEMS},
    )
    @action(detail=True)  # type: ignore[untyped-decorator]
    def compare(self, request: Any, pk: str) -> Response:
        """Return each measure before and after with its p-value, and each question's change."""
        query = Against.of_query(request)
        run = self.get_object()
        self.kwargs["pk"] = str(query.validated_data["before"])
        comparison = compare_runs(before=self.get_object(), after=run)
        questions = [{**asdict(one), "difference": one.difference} for one in comparison.questions]
        return Response(
            {
                "measures": {name: asdict(one) for name, one in comparison.measures.items()},
                "questions": questions,
                "n_only_before": comparison.n_only_before,
                "n_only_after": comparison.n_only_after,
            }
        )
