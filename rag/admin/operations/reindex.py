"""Reindex runs in the admin: start, resume, cancel, swap, roll back, retire."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import column, state_label, text_block
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import OfStoreAdmin, scope_for
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.services.reindex import (
    ReindexOptions,
    cancel_reindex,
    drop_old_space,
    force_swap,
    queue_reindex,
    resume_reindex,
    roll_back_space,
    start_reindex,
)


class ReindexRunForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """A store, the part of its index to rebuild, and the model to move to."""

    is_forced = forms.BooleanField(
        label=_("swap whatever the quality gate says"),
        required=False,
        help_text=_("Only for a move to another model; the run tells who decided it."),
    )

    class Meta:
        model = models.ReindexRun
        fields = ("store", "what", "model")

    def validate_unique(self) -> None:
        """Do nothing: the service joins a run that is already queued."""

    def validate_constraints(self) -> None:
        """Do nothing: the service checks the constraints."""


@admin.register(models.ReindexRun)
class ReindexRunAdmin(OfStoreAdmin):
    """The runs of stores that one may change."""

    form = ReindexRunForm
    list_display = (
        "id",
        "store",
        "what",
        "model",
        "state_label",
        "done",
        "created_by",
        "created_at",
    )
    list_select_related = ("store", "created_by")
    list_filter = ("state", "what")
    sortable_by = ()
    actions = ("resume", "cancel", "swap", "roll_back", "retire")
    outcome_fields = (
        "state_label",
        "stage",
        "done",
        "target",
        "error_text",
        "facts",
        "created_by",
        "created_at",
        "started_at",
        "swapped_at",
        "ended_at",
    )

    def editable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return the runs that ``scope`` sees: those of stores that it may change."""
        return self.readable(queryset, scope)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the order's fields, and what became of it."""
        return ["store", "what", "model", *(self.outcome_fields if obj else ["is_forced"])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return all fields of a run that was ordered."""
        return ["store", "what", "model", *self.outcome_fields] if obj else []

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: runs are kept."""
        return False

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Return a form that creates the run once all fields are valid."""
        made = super().get_form(request, obj, change, **kwargs)

        class StartingForm(made):  # type: ignore[misc, valid-type]
            def clean(self) -> Any:
                values = super().clean()
                if obj is None and values and not self.errors:
                    self.run = _start(request, values)
                return values

        return StartingForm

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Queue the run that the form has created."""
        run = form.run
        queue_reindex(run_id=run.pk)
        obj.__dict__.update(run.__dict__)

    def save_related(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a run has no rows below it."""

    @admin.action(description=_("Go on with the failed run"), permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Queue failed runs again."""
        self._each(request, queryset, lambda run: queue_reindex(run_id=resume_reindex(run=run).pk))

    @admin.action(description=_("Cancel the run"), permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Stop runs; what a move has built is removed."""
        self._each(request, queryset, lambda run: cancel_reindex(run=run))

    @admin.action(description=_("Swap to the new model, even if refused"), permissions=["change"])
    def swap(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Switch the stores to their new spaces."""
        self._each(request, queryset, lambda run: force_swap(run=run, by=request.user))

    @admin.action(description=_("Roll back to the old model"), permissions=["change"])
    def roll_back(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Switch the stores back to their old spaces."""
        self._each(request, queryset, lambda run: roll_back_space(run=run))

    @admin.action(description=_("Delete the old model's vectors"), permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Remove the old spaces, ten minutes after the swap at the earliest."""
        self._each(request, queryset, lambda run: drop_old_space(run=run))

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Any], action: Callable[[Any], Any]
    ) -> None:
        runs = queryset.select_related("store", "source", "target", "created_by")
        self.for_each(request, runs, action)

    state_label = column(_("state"), lambda run: state_label(run))
    done = column(_("done"), lambda run: f"{run.n_done} / {run.n_total}" if run.n_total else "–")
    error_text = column(
        _("error"), lambda run: error_sentence(RAGError.from_dict(run.error)) if run.error else "–"
    )

    @admin.display(description=_("report"))
    def facts(self, run: models.ReindexRun) -> SafeString:
        """Return recall and the figures of both spaces."""
        text = json.dumps(run.report, ensure_ascii=False, indent=1)
        return text_block(text)


def _start(request: HttpRequest, values: dict[str, Any]) -> models.ReindexRun:
    try:
        run, _is_new = start_reindex(
            scope=scope_for(request),
            store=values["store"],
            what=values["what"],
            model=values.get("model") or "",
            options=ReindexOptions(is_forced=bool(values.get("is_forced"))),
        )
    except RAGError as error:
        raise ValidationError(error_sentence(error)) from error
    return run
