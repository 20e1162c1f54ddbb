"""Evaluation runs as JSON, and what lists of them can be asked for."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from rag import models
from rag.api.fields import JSONObjectField, StrictSerializer
from rag.api.filters import StoreList
from rag.api.problems import told
from rag.core.errors import RAGError


class RunBody(serializers.ModelSerializer):  # type: ignore[misc]  # DRF has no types
    """A run: how far it is, by which settings and model it asks, and the mean figures."""

    error = serializers.SerializerMethodField()

    class Meta:
        model = models.EvaluationRun
        fields = (
            "id", "store", "state", "error", "space", "model", "chat_model", "settings",
            "settings_hash", "label", "n_questions", "n_done", "n_lost", "metrics", "took_ms",
            "created_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_error(self, run: models.EvaluationRun) -> dict[str, Any] | None:
        """Return why the run failed, in the reader's language."""
        return told(RAGError.from_dict(run.error)) if run.error else None


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


class RunList(StoreList):
    """Of which runs."""

    name = None
    ordering = serializers.ChoiceField(["id", "-id"], default="-id")
    store = serializers.CharField(required=False, help_text="The store's id, slug or name.")

    def narrow(self, rows: Any, given: dict[str, Any]) -> Any:
        """Return the rows that pass."""
        return rows


class Against(StrictSerializer):
    """The run before."""

    before = serializers.IntegerField(min_value=1, max_value=2**63 - 1)
